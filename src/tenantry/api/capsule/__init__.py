"""Capsule's API group `capsule.clastix.io`, unchanged on the wire.

One module per kind (`tenant` with its `rules`, `tenant_owner`, `configuration`,
`quantity_ledger`), `common` for the pieces they share, `constants` for every name that outlives a
switch between Capsule and Tenantry, `resources` for where the kinds live, `fields` for which
fields a manifest sets. The CRDs under `tenantry.deploy` are generated from these types by
`tools/crdgen`: a docstring below a field is what `kubectl explain` prints, and
`tenantry.api.schema` says what a Python type alone cannot.
"""
