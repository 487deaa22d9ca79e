"""The tenants' view of the cluster: one API endpoint at which unmodified clients see what is theirs.

*Passthrough*: the request goes on with the caller's own token, or by impersonation of a caller who
came with a certificate; the API server decides. *Filtered*: a read that the gateway makes as
itself, narrowed by a label selector. *Sieved*: the same, narrowed by looking at each object, where
no selector can say it. *Fanned out*: `get X -A` as the caller, in each namespace of the caller's
tenants, merged. *Review*: an answer to "may I?" that is corrected by what the gateway shows.

What becomes of a request is `decide`, a pure function. The gateway acts as itself only for reads
of collections and objects whose visible part it has computed; every write is the caller's.
"""
