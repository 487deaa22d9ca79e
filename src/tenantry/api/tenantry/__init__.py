"""Tenantry's own API group, `tenantry.io/v1alpha1`.

Imported one module at a time; this file imports nothing.
"""
