"""The hook that guards metadata of nodes from tenants' people; pure."""

from __future__ import annotations

from typing import Any

from tenantry.apps import match_conditions

Object = dict[str, Any]

#: Asked about only where the configuration says something of nodes, and only about what it speaks
#: of: heartbeats, taints and cordons go on without us, and so does whoever masters the cluster.
HOOK: Object = {
    "name": "nodes",
    "rules": [
        {
            "apiGroups": [""],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["nodes"],
            "scope": "Cluster",
        }
    ],
    "matchConditions": [
        match_conditions.NOT_KUBE_SYSTEM,
        match_conditions.NOT_NODES,
        match_conditions.NOT_A_MASTER,
        match_conditions.METADATA_CHANGES,
    ],
    "sideEffects": "NoneOnDryRun",
}
