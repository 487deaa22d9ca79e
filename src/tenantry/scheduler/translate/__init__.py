"""Translate Kubernetes and KAI objects, as decoded JSON, into what the engine is told.

Pure functions of one object each. Unreadable values raise `InvalidValueError` with the field; the
caller sets the object aside.
"""
