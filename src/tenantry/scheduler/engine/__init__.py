"""Decide where pods go and which must leave, as a pure function of a snapshot.

`observed.Observed` is the fold of what was seen; `session.Session` a throw-away copy that actions
change through a `statement.Statement`; `cycle.Engine` runs the configured actions over one session
and returns decisions. Nothing here reads a clock, draws a random number or does I/O: time comes in
as an argument. Rules and their reasons: docs/designs/scheduler-engine.md.
"""
