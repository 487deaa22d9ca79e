"""Generator of the CustomResourceDefinitions under `src/tenantry/deploy/crds`.

`kinds` lists what there is to generate, `walker` turns a msgspec Struct into a structural schema,
`descriptions` finds the text below each field, `core_types` holds the schemas of core types that
Python keeps opaque, `definition` wraps schemas into a CRD, `structural` checks what the API server
would refuse, `command` writes the files. Run it as ``python tools/crdgen``.
"""
