"""Nodes that belong to a tenant.

*Pool*: a TenantNodePool, which selects nodes and says whose they are. *Dedicated*: a node that
carries the taint of its tenant, so that nobody else's pods are scheduled there. *Record*: the
annotation on a node that says what was there before, so that a release restores just that.
*Fence*: what admission puts on pods, so that a tenant's pods run on its nodes and nowhere else.
*Foreign*: a pod on a node of a tenant that is neither the tenant's nor the system's. *Complete*: a
dedicated node on which the DaemonSets run without which it is of no use.

Not here: which namespaces a tenant has (`tenancy`), which pod runs when (`scheduler`).
"""
