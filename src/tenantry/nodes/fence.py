"""What pools mean for pods: where a tenant's pods run, and what nobody may ask for; pure.

Derived from the specifications of pools alone, so that a pod is fenced from the moment its
tenant's pool exists, not from the moment a controller got to a node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import taints

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What pools mean for the pods of one tenant; of a tenant without pools if `pools` is empty.

    :param selector: labels of the tenant's own nodes, which its pods select
    :param chosen: labels that the Tenant itself chooses for its pods, as PodNodeSelector would
    :param required: requirements on node labels, each of which every alternative must meet
    :param preferred: requirements that are only preferred
    :param tolerations: of the taints of the tenant's own nodes
    """

    tenant: str
    pools: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    required: tuple[Object, ...] = ()
    preferred: tuple[Object, ...] = ()
    tolerations: tuple[Object, ...] = ()
    taint_keys: frozenset[str] = frozenset({constants.TAINT_KEY})
    label_keys: frozenset[str] = frozenset(
        {constants.LABEL_KEY, constants.POOL_LABEL, constants.DEDICATED_LABEL}
    )

    def owns_label(self, key: str, value: str) -> bool:
        """Tell whether a label of the guarded ones names the tenant's own nodes."""
        if self.chosen.get(key) == value:
            return True
        return value in self.pools if key == constants.POOL_LABEL else value == self.tenant


def alive(pools: Iterable[node_pool.TenantNodePool]) -> list[node_pool.TenantNodePool]:
    """Return the pools that hold, by name; one that is being deleted does not."""
    found = [pool for pool in pools if not pool.metadata.deletion_timestamp]
    return sorted(found, key=lambda pool: pool.metadata.name)


def node_selector(pools: Iterable[node_pool.TenantNodePool], tenant: str) -> dict[str, str]:
    """Return the label that the nodes of all of a tenant's pools carry.

    None where pods are not bound to them, or where the pools do not have one in common.
    """
    mine = [pool.spec for pool in alive(pools) if pool.spec.tenant == tenant]
    keys = {spec.label_key for spec in mine}
    if len(keys) != 1 or all(spec.mode == "shared" for spec in mine):
        return {}
    return {keys.pop(): tenant}


def fence(pools: Iterable[node_pool.TenantNodePool], tenant: str) -> Fence:
    """Compile the fence of one tenant."""
    everything = alive(pools)
    mine = [pool for pool in everything if pool.spec.tenant == tenant]
    base = Fence(tenant=tenant)
    taint_keys = base.taint_keys | {pool.spec.taint_key for pool in everything}
    label_keys = base.label_keys | {pool.spec.label_key for pool in everything}
    names = tuple(pool.metadata.name for pool in mine)
    bound = any(pool.spec.mode != "shared" for pool in mine)
    in_pools = _in_pools(names)
    required: list[Object] = []
    preferred: list[Object] = []
    selector: dict[str, str] = {}
    if bound:
        selector = node_selector(everything, tenant)
        if len(mine) > 1 or not selector:
            required.append(in_pools)
    else:
        if mine:
            preferred.append(in_pools)
        if any(pool.spec.mode != "shared" for pool in everything):
            # Nodes of others stay closed, even while a taint is missing from one of them.
            required.append({"key": constants.DEDICATED_LABEL, "operator": "DoesNotExist"})
    return Fence(
        tenant=tenant,
        pools=names,
        selector=selector,
        required=tuple(required),
        preferred=tuple(preferred),
        tolerations=tuple(_tolerations(mine)),
        taint_keys=taint_keys,
        label_keys=label_keys,
    )


def choosing(around: Fence, chosen: Mapping[str, str]) -> Fence:
    """Return the fence of a tenant whose Tenant chooses nodes, too.

    Where that differs from the label of its pools it wins, as in the annotation of namespaces; the
    pods stay in the pools all the same, and wait if no node is both.
    """
    if not chosen:
        return around
    selector = {k: v for k, v in around.selector.items() if chosen.get(k, v) == v}
    required = around.required
    if len(selector) < len(around.selector) and _in_pools(around.pools) not in required:
        required = (*required, _in_pools(around.pools))
    return dataclasses.replace(around, selector=selector, chosen=chosen, required=required)


def _in_pools(names: Sequence[str]) -> Object:
    return {"key": constants.POOL_LABEL, "operator": "In", "values": list(names)}


def _tolerations(pools: Sequence[node_pool.TenantNodePool]) -> Iterable[Object]:
    seen = set()
    for pool in pools:
        spec = pool.spec
        if spec.mode == "shared":
            continue
        for effect in ("NoSchedule", "NoExecute") if spec.no_execute else ("NoSchedule",):
            if (spec.taint_key, effect) not in seen:
                seen.add((spec.taint_key, effect))
                yield {
                    "key": spec.taint_key,
                    "operator": "Equal",
                    "value": spec.tenant,
                    "effect": effect,
                }


def _selected(around: Fence, *, template: bool) -> dict[str, str]:
    # What a Tenant chooses may change, and would stay in a template as it was.
    return dict(around.selector) if template else {**around.selector, **around.chosen}


def fenced(
    spec: Mapping[str, Any], around: Fence, *, placing: bool = True, template: bool = False
) -> Object:
    """Return a pod's specification inside the fence.

    :param placing: also where it may run, which the API server fixes when the pod is made
    :param template: it is not a pod's yet
    """
    result: Object = dict(spec)
    if around.tolerations:
        has = list(spec.get("tolerations") or ())
        given = [taints.toleration(one) for one in has]
        missing = [one for one in around.tolerations if taints.toleration(one) not in given]
        if missing:
            result["tolerations"] = [*has, *missing]
    if not placing:
        return result
    if selected := _selected(around, template=template):
        result["nodeSelector"] = {**selected, **(spec.get("nodeSelector") or {})}
    if around.required:
        result["affinity"] = _required(spec.get("affinity") or {}, around.required)
    if around.preferred:
        result["affinity"] = _preferred(result.get("affinity") or {}, around.preferred)
    return result


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _required(affinity: Mapping[str, Any], wanted: Sequence[Object]) -> Object:
    node = affinity.get("nodeAffinity") or {}
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if node.get(_REQUIRED) is None:
        terms = [{}]
    # A term that says nothing matches no node, and must not begin to match some.
    closed = [
        _narrowed(term, wanted) if term or node.get(_REQUIRED) is None else term for term in terms
    ]
    return {**affinity, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": closed}}}


def _narrowed(term: Mapping[str, Any], wanted: Sequence[Object]) -> Object:
    has = list(term.get("matchExpressions") or ())
    missing = [one for one in wanted if one not in has]
    return {**term, "matchExpressions": [*has, *missing]}


def _preferred(affinity: Mapping[str, Any], wanted: Sequence[Object]) -> Object:
    node = affinity.get("nodeAffinity") or {}
    has = list(node.get(_PREFERRED) or ())
    ours = {"weight": 100, "preference": {"matchExpressions": list(wanted)}}
    listed = has if ours in has else [*has, ours]
    return {**affinity, "nodeAffinity": {**node, _PREFERRED: listed}}


def problem(
    spec: Mapping[str, Any],
    around: Fence,
    stored: Mapping[str, Any] | None = None,
    *,
    template: bool = False,
) -> str:
    """Say what in a pod's specification leaves the fence; "" for nothing.

    :param stored: the specification as it was, of which nothing is held against the change
    :param template: it is not a pod's yet
    """
    before = stored or {}
    had = list(before.get("tolerations") or ())
    for index, raw in enumerate(spec.get("tolerations") or ()):
        if raw not in had and (text := _toleration_problem(raw, around)):
            return f"spec.tolerations[{index}]: {text}"
    if spec.get("nodeSelector") != before.get("nodeSelector"):
        for key, value in sorted((spec.get("nodeSelector") or {}).items()):
            if key in around.label_keys and not around.owns_label(key, value):
                return (
                    f'spec.nodeSelector[{key}]: Forbidden: "{value}": nodes of somebody else; '
                    f"{_accepted(around)}"
                )
        for key, value in sorted(_selected(around, template=template).items()):
            if stored is None and (spec.get("nodeSelector") or {}).get(key) != value:
                return f"spec.nodeSelector[{key}]: Required value: {value}"
    if spec.get("affinity") != before.get("affinity"):
        return _affinity_problem(spec, around, complete=stored is None)
    return ""


def _toleration_problem(raw: Mapping[str, Any], around: Fence) -> str:
    one = taints.toleration(raw)
    if one.effect == "PreferNoSchedule":
        return ""
    if one.key and one.key not in around.taint_keys:
        return ""
    if not one.key:
        return (
            "Forbidden: operator Exists without a key tolerates the taint of every tenant's "
            "nodes; name the keys that are meant"
        )
    # Others than Equal compare, and a tenant's name may be a number.
    if one.operator != "Equal" or one.value != around.tenant:
        shown = f'"{one.value}"' if one.operator == "Equal" else f"operator {one.operator}"
        return (
            f"Forbidden: {one.key} with {shown} tolerates nodes of other tenants; "
            f'accepted is operator Equal with value "{around.tenant}"'
        )
    return ""


def _affinity_problem(spec: Mapping[str, Any], around: Fence, *, complete: bool) -> str:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    for number, term in enumerate(terms):
        expressions = term.get("matchExpressions") or ()
        for index, one in enumerate(expressions):
            if _leaves(one, around):
                return (
                    f"{path}[{number}].matchExpressions[{index}]: Forbidden: {one['key']} "
                    f"{one['operator']} {list(one.get('values') or ())}: leaves the tenant's "
                    f"nodes; {_accepted(around)}"
                )
        if complete and term and any(wanted not in expressions for wanted in around.required):
            return f"{path}[{number}]: Required value: {around.required[0]}"
    return ""


def _leaves(expression: Mapping[str, Any], around: Fence) -> bool:
    key, operator = expression.get("key"), expression.get("operator")
    values = expression.get("values") or ()
    if key not in around.label_keys:
        return False
    own = [around.owns_label(key, value) for value in values]
    if operator == "In":
        return not all(own)
    if operator == "NotIn":
        # Not on one's own nodes is elsewhere; not on those of others is what holds anyway.
        return bool(around.pools) and any(own) and key != constants.POOL_LABEL
    if operator == "Exists":
        return not around.pools
    if operator == "DoesNotExist":
        return bool(around.selector or around.pools) and expression not in around.required
    return True


def _accepted(around: Fence) -> str:
    if not around.pools:
        return f"tenant {around.tenant} has no nodes of its own, so leave it out"
    pools = ", ".join(around.pools)
    return f"accepted are the nodes of tenant {around.tenant} (pools {pools})"
