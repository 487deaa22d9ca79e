"""Walkthroughs of the seed documents, played on a real cluster with the commands people type.

A *walkthrough* is a list of *steps*: who types what, and how to tell whether the answer is right.
`play` runs them; `seed_000` and its siblings are the walkthroughs.
"""
