"""Run scheduling scenarios that are written down as data, and compare with what is expected.

A scenario is a small cluster, the actions to run and the outcome, one JSON object a line; the
format is described in docs/designs/scheduler-differences.md.
"""
