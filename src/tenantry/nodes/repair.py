"""Let a DaemonSet onto dedicated nodes: append a toleration, and take it back; pure.

The list is another's, and has entries of its own, so ours is added at its end under a `test` of
the list as it was seen. What it was before is kept in an annotation for the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tenantry.api.tenantry import constants
from tenantry.nodes import daemonsets, taints
from tenantry.runtime import jsonpatch

_PATH = "/spec/template/spec/tolerations"
_RECORD = jsonpatch.pointer("metadata", "annotations", constants.REPAIR_ANNOTATION)

#: Owner kind -> where its operator takes the tolerations of its DaemonSets from.
_PLACES = {
    "ClusterPolicy": "spec.daemonsets.tolerations of the ClusterPolicy",
    "NicClusterPolicy": "spec.tolerations of the NicClusterPolicy",
    "DeviceConfig": "spec.devicePlugin and spec.selector of the DeviceConfig",
    "NodeFeatureDiscovery": "spec.workerTolerations of the NodeFeatureDiscovery",
    "MetalLB": "spec.speakerTolerations of the MetalLB",
    "Installation": "spec.calicoNodeDaemonSet of the Installation",
}

Action = Literal["none", "patch", "reported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What is to be done about one DaemonSet."""

    namespace: str
    name: str
    action: Action
    reason: str
    operations: tuple[jsonpatch.Operation, ...] = ()


def allowed(found: daemonsets.View, allow: Collection[str]) -> bool:
    """Tell whether a DaemonSet is on an allow list of namespaces and namespace/name."""
    return found.namespace in allow or found.key in allow


def plan(
    found: daemonsets.View,
    *,
    needed: Iterable[taints.Taint],
    tenant: str | None,
    allow: Collection[str],
    anyway: bool = False,
) -> Repair:
    """Decide about one DaemonSet.

    :param needed: taints of the nodes that it shall reach and does not
    :param tenant: tenant of its namespace
    :param anyway: patch also what its owner will put back
    """
    missing = lacking(found, needed)
    what: Action = "none"
    operations: tuple[jsonpatch.Operation, ...] = ()
    if tenant is not None:
        what, reason = "reported", f"it is tenant {tenant}'s; only the system's are repaired"
    elif not missing:
        reason = "nothing to do: it reaches the nodes, or tolerates their taints"
    elif not allowed(found, allow):
        what = "reported"
        reason = f"not on the allow list; allow {found.namespace} or {found.key}"
    elif (owner := found.owner or daemonsets.tracker(found)) and not anyway:
        what, reason = "reported", _elsewhere(owner)
    else:
        what = "patch"
        reason = "appends " + ", ".join(f"{one['key']}:{one['effect']}" for one in missing)
        operations = tuple(_append(found, missing))
    return Repair(
        namespace=found.namespace,
        name=found.name,
        action=what,
        reason=reason,
        operations=operations,
    )


def lacking(found: daemonsets.View, needed: Iterable[taints.Taint]) -> list[dict[str, str]]:
    """Return the tolerations that are missing for these taints, one per key and effect."""
    has = daemonsets.given(found.template)
    missing = {
        (taint.key, taint.effect): {
            "key": taint.key,
            "operator": "Exists",
            "effect": taint.effect,
        }
        for taint in needed
        if not taints.tolerated([taint], has)
    }
    return [missing[key] for key in sorted(missing)]


def _elsewhere(owner: str) -> str:
    kind = owner.partition("/")[0]
    place = _PLACES.get(kind, "the tolerations in its values or specification")
    return f"a patch would be undone by {owner}; change {place}, or use --patch-anyway"


def _append(found: daemonsets.View, missing: list[dict[str, str]]) -> list[jsonpatch.Operation]:
    listed: list[Any] = list(found.template.get("tolerations") or ())
    operations: list[jsonpatch.Operation] = []
    if listed:
        operations.append({"op": "test", "path": _PATH, "value": listed})
        operations += [{"op": "add", "path": f"{_PATH}/-", "value": one} for one in missing]
    else:
        operations += [_version(found), {"op": "add", "path": _PATH, "value": missing}]
    # The way back leads to how it was before the first repair.
    if constants.REPAIR_ANNOTATION in found.annotations:
        return operations
    before = msgspec.json.encode(listed).decode()
    if found.annotations:
        return [*operations, {"op": "add", "path": _RECORD, "value": before}]
    return [
        _version(found),
        *operations,
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {constants.REPAIR_ANNOTATION: before},
        },
    ]


def undo(found: daemonsets.View, keys: Collection[str]) -> list[jsonpatch.Operation]:
    """Return the patch that takes our tolerations out again, and leaves what others added since.

    :param keys: keys of the taints that give nodes to tenants
    """
    text = found.annotations.get(constants.REPAIR_ANNOTATION)
    if text is None:
        return []
    before = msgspec.json.decode(text)
    listed: list[Any] = list(found.template.get("tolerations") or ())
    kept = [one for one in listed if one in before or not _ours(one, keys)]
    operations: list[jsonpatch.Operation] = [
        {"op": "test", "path": _RECORD, "value": text},
        {"op": "remove", "path": _RECORD},
    ]
    if kept == listed:
        return operations
    operations.append({"op": "test", "path": _PATH, "value": listed})
    if kept:
        return [*operations, {"op": "replace", "path": _PATH, "value": kept}]
    return [*operations, {"op": "remove", "path": _PATH}]


def _ours(one: dict[str, Any], keys: Collection[str]) -> bool:
    return one.get("key") in keys and one.get("operator") == "Exists"


def _version(found: daemonsets.View) -> jsonpatch.Operation:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": found.resource_version}
