"""Admission steps of the tenancy: pure, `(review, evidence) -> allow, deny or patch`.

Which objects reach them, and where their evidence comes from, is `tenantry.apps`' business.
"""
