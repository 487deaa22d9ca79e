"""Certificates: an authority that signs, and the decision when to sign again.

An *authority* is a certificate with its key that signs others; a *bundle* is what one TLS server
keeps: its authority, its own certificate, and every authority its clients should still trust.
Nothing here writes a file or a Secret and nothing reads a clock: callers pass `now` and store
what they get.
"""
