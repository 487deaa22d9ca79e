"""The ValidatingAdmissionPolicy that keeps tenants' hands off what a fence rests on; pure.

It holds while webhooks are down, and asks nobody: nodes report every few seconds, and none of that
may wait for us. The cluster's masters may change nodes by hand (what they undo is put back), and so
may nodes, the cluster's controllers and the platform; everybody else only what no pool rests on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tenantry.api import resources
from tenantry.api.tenantry import constants
from tenantry.runtime import registration

Object = dict[str, Any]

NAME = "tenantry-node-pools"
MESSAGE = (
    "taints and labels that give nodes to tenants are kept by TenantNodePools; "
    "ask the platform's administrators to change the pool"
)

_RECORD = constants.RECORD_ANNOTATION


def _map(obj: str, part: str) -> str:
    return f"({obj} != null && has({obj}.metadata.{part}) ? {obj}.metadata.{part} : {{}})"


def _taints(obj: str) -> str:
    return f"({obj} != null && has({obj}.spec.taints) ? {obj}.spec.taints : [])"


def policies(controllers: Collection[str]) -> list[tuple[resources.Resource, Object]]:
    """Return the policy and its binding.

    :param controllers: user names of the platform itself
    """
    names = ", ".join(f"'{name}'" for name in sorted(controllers))
    fixed = f"['{constants.LABEL_KEY}', '{constants.POOL_LABEL}', '{constants.DEDICATED_LABEL}']"
    # A pool's own keys stand among the labels of the record, which nobody else may change either;
    # of what may be in a key, only the dot means something in an expression.
    of_record = "variables.record.matches('\"labels\":[{][^}]*\"' + k + '\":')"
    guarded = f"k in {fixed} || {of_record}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["nodes", "nodes/status"],
                        "scope": "Cluster",
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "not-the-cluster-itself",
                    "expression": (
                        "!request.userInfo.groups.exists(g, g in ['system:masters', "
                        "'system:nodes', 'system:serviceaccounts:kube-system'])"
                    ),
                },
                {
                    "name": "not-a-part-of-the-control-plane",
                    "expression": (
                        "!request.userInfo.username.startsWith('system:') || "
                        "request.userInfo.username.startsWith('system:serviceaccount:') || "
                        "request.userInfo.username == 'system:anonymous'"
                    ),
                },
                {
                    "name": "not-the-platform-itself",
                    "expression": f"!(request.userInfo.username in [{names}])",
                },
            ],
            "variables": [
                {"name": "before", "expression": _map("oldObject", "labels")},
                {"name": "after", "expression": _map("object", "labels")},
                {"name": "old", "expression": _map("oldObject", "annotations")},
                {"name": "new", "expression": _map("object", "annotations")},
                {
                    "name": "record",
                    "expression": f"'{_RECORD}' in variables.old ? variables.old['{_RECORD}'] : ''",
                },
            ],
            "validations": [
                {
                    "expression": (
                        f"variables.before.all(k, !({guarded}) || (k in variables.after && "
                        "variables.after[k] == variables.before[k])) && "
                        f"variables.after.all(k, !({guarded}) || k in variables.before)"
                    ),
                    "message": MESSAGE,
                    "reason": "Forbidden",
                },
                {
                    "expression": (
                        f"('{_RECORD}' in variables.new ? variables.new['{_RECORD}'] : '') "
                        "== variables.record"
                    ),
                    "message": MESSAGE,
                    "reason": "Forbidden",
                },
                {
                    "expression": _same_taints(),
                    "message": MESSAGE,
                    "reason": "Forbidden",
                },
            ],
        },
    }
    return registration.denying(policy)


def _same_taints() -> str:
    """Say that guarded taints are the same: on a node of a pool all that are not Kubernetes' own."""
    guarded = (
        f"(t.key == '{constants.TAINT_KEY}' || "
        "(variables.record != '' && !t.key.startsWith('node.kubernetes.io/')))"
    )
    same = (
        "u.key == t.key && u.effect == t.effect && "
        "(has(u.value) ? u.value : '') == (has(t.value) ? t.value : '')"
    )
    one, other = _taints("oldObject"), _taints("object")
    return (
        f"{one}.all(t, !{guarded} || {other}.exists(u, {same})) && "
        f"{other}.all(t, !{guarded} || {one}.exists(u, {same}))"
    )
