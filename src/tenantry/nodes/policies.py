"""The ValidatingAdmissionPolicy that keeps tenants' hands off what a fence rests on; pure.

It holds while webhooks are down, and asks nobody: nodes report every few seconds, and none of that
may wait for us. The cluster's masters may change nodes by hand (what they undo is put back), and so
may nodes, the cluster's controllers and the platform; everybody else only what no pool rests on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.api.tenantry import resources as tenantry
from tenantry.core import names
from tenantry.runtime import registration

Object = dict[str, Any]

NAME = "tenantry-node-pools"
MESSAGE = (
    "taints and labels that give nodes to tenants are kept by TenantNodePools; "
    "ask the platform's administrators to change the pool"
)
SELECTING = (
    "TenantNodePools select nodes by this label; changing it takes the right to update pools"
)

_RECORD = constants.RECORD_ANNOTATION


def _map(obj: str, part: str) -> str:
    return f"({obj} != null && has({obj}.metadata.{part}) ? {obj}.metadata.{part} : {{}})"


def _taints(obj: str) -> str:
    return f"({obj} != null && has({obj}.spec.taints) ? {obj}.spec.taints : [])"


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that pools rest on, each sorted.

    :param selecting: of labels by which pools select nodes, which pools do not set
    """

    labels: tuple[str, ...] = (
        constants.LABEL_KEY,
        constants.DEDICATED_LABEL,
        constants.POOL_LABEL,
    )
    taints: tuple[str, ...] = (constants.TAINT_KEY,)
    selecting: tuple[str, ...] = ()


def keys(pools: Iterable[node_pool.TenantNodePool]) -> Keys:
    """Collect the keys of pools; what is none, as before a pool is judged, is left out."""
    given, usual = [pool.spec for pool in pools], Keys()
    labels = {*usual.labels, *(spec.label_key for spec in given)}
    selecting: set[str] = set()
    for selector in (spec.selector or {} for spec in given):
        selecting.update(selector.get("matchLabels") or ())
        found = (one.get("key") for one in selector.get("matchExpressions") or ())
        selecting.update(key for key in found if isinstance(key, str))
    return Keys(
        _named(labels),
        _named({*usual.taints, *(spec.taint_key for spec in given)}),
        _named(selecting - labels),
    )


def _named(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(key for key in found if names.is_qualified_name(key)))


def policies(
    controllers: Collection[str], guarding: Keys | None = None
) -> list[tuple[resources.Resource, Object]]:
    """Return the policy and its binding.

    :param controllers: user names of the platform itself
    :param guarding: what the pools that there are rest on
    """
    guarding = guarding or Keys()
    platform = ", ".join(f"'{name}'" for name in sorted(controllers))
    fixed = list(guarding.labels)
    # Those of a pool that is gone stand among the labels of the record until the node is released;
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
                    "expression": f"!(request.userInfo.username in [{platform}])",
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
                    "expression": _same_taints(guarding.taints),
                    "message": MESSAGE,
                    "reason": "Forbidden",
                },
                *_same_choice(guarding.selecting),
            ],
        },
    }
    return registration.denying(policy)


def _same_choice(selecting: Collection[str]) -> list[Object]:
    """Say that what pools select by is changed by those who could change pools.

    And by accounts: what discovers devices labels nodes all the time, with everything it finds.
    """
    if not selecting:
        return []
    pools = tenantry.NODE_POOLS
    return [
        {
            "expression": (
                f"{list(selecting)}.all(k, "
                "(k in variables.before ? [variables.before[k]] : []) == "
                "(k in variables.after ? [variables.after[k]] : [])) || "
                "request.userInfo.username.startsWith('system:serviceaccount:') || "
                f"authorizer.group('{pools.group}').resource('{pools.plural}').check('update')"
                ".allowed()"
            ),
            "message": SELECTING,
            "reason": "Forbidden",
        }
    ]


def _same_taints(guarding: Collection[str]) -> str:
    """Say that guarded taints are the same: on a node of a pool all that are not Kubernetes' own."""
    guarded = (
        f"(t.key in {list(guarding)} || "
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
