"""Share a cluster's accelerators between queues: gangs, fair share, fractions, topology, eviction.

`tenantry.scheduler.engine` decides and touches nothing; what watches, binds and evicts lies beside
it. Vocabulary: a *job* is a pod group, a *task* one of its pods, a *queue* a node of the tree that
divides the cluster.
"""
