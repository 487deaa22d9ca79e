"""Names of Tenantry's own group that outlive a process: keys, field managers, reasons."""

from __future__ import annotations

GROUP = "tenantry.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

#: Field manager of what is written about nodes and pools of nodes.
NODES_MANAGER = "tenantry/nodes"

#: Taint of a node that belongs to a tenant, and label of the nodes of its pools (seed 000).
TAINT_KEY = "tenant-dedicated"
LABEL_KEY = "node-pool"
#: Which pool a node is in; set on every node of every pool.
POOL_LABEL = "tenantry.io/node-pool"
#: Whom a node is kept for; set where nobody else may run.
DEDICATED_LABEL = "tenantry.io/dedicated-to"
#: On a node: what was there before it came into a pool, and what was put there.
RECORD_ANNOTATION = "tenantry.io/node-pool-record"
#: On a DaemonSet: the tolerations it had before it was repaired.
REPAIR_ANNOTATION = "tenantry.io/tolerations-before-repair"

READY = "Ready"
COMPLETE = "Complete"
EXCLUSIVE = "Exclusive"
