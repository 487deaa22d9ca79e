"""Admission steps of dedicated nodes: pure, `(review, evidence) -> allow, deny or patch`."""
