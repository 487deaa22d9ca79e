"""Tenants over namespaces: ownership, policy, budgets.

*Tenant*: a cluster-scoped object that a set of namespaces belongs to. *Assignment*: what ties a
namespace to a tenant, always three things together: the label ``capsule.clastix.io/tenant``, the
ownerReference, and the uid in it. *Owner*, *Capsule user*, *administrator*: see
`tenantry.directory`. *Cordoned*: frozen for Capsule users. *Ledger*: the object that holds
reservations between an admission answer and the moment the object is seen.

Not here: what tenants see of the cluster (`gateway`), which nodes are theirs (`nodes`), who gets
which GPU when (`scheduler`).
"""
