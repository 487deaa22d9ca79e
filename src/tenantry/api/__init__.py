"""Wire types of the Kubernetes APIs that Tenantry speaks, and the names of their resources.

`meta` holds what every object has, `resources` where each kind lives in the API, `admission` the
review exchanged with webhooks; one subpackage per API group holds that group's own kinds and is
imported by those who need it, one group at a time. Types here are data: no defaults that a
controller would have to know about, no behaviour, no I/O.

Structs are trimmed: fields nobody reads are dropped on decoding. They are therefore never sent
back as a whole; writes are server-side apply, a patch, or a status patch.
"""
