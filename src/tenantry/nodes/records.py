"""What a pool puts on a node, and how that is taken back exactly; pure.

The record on the node holds, for each label and taint that was set, what was there before. It
outlives the pool and the process that wrote it, so a release needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import taints, views
from tenantry.runtime import jsonpatch

Operations = list[jsonpatch.Operation]


class Record(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The annotation on a node of a pool."""

    pool: str
    tenant: str
    draining: bool = False
    labels: dict[str, str] = {}
    """labels that were set"""
    labels_before: dict[str, str | None] = {}
    """what these keys had before; None = nothing"""
    marks: tuple[taints.Taint, ...] = ()
    """taints that were set"""
    marks_before: tuple[taints.Taint, ...] = ()
    """taints of the same keys and effects before"""


class Wanted(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a node of a pool shall carry now."""

    pool: str
    tenant: str
    draining: bool = False
    labels: dict[str, str] = {}
    marks: tuple[taints.Taint, ...] = ()


_RECORD = msgspec.json.Decoder(Record)


def read(node: views.NodeView) -> Record | None:
    """Read a node's record; one that cannot be read, as after editing by hand, counts as none."""
    if not node.record:
        return None
    try:
        return _RECORD.decode(node.record)
    except msgspec.MsgspecError:
        return None


def wanted(
    pool: node_pool.TenantNodePool, *, tainted: bool, draining: bool = False, gently: bool = False
) -> Wanted:
    """Return what a node carries in a pool.

    :param tainted: others are kept off
    :param gently: nothing yet that ends pods by force
    :param draining: others still run: no label yet, and nothing that ends pods by force
    """
    spec, name = pool.spec, pool.metadata.name
    effects = ["NoSchedule"] if tainted else []
    if tainted and spec.no_execute and not draining and not gently:
        effects.append("NoExecute")
    labels = {} if draining else {spec.label_key: spec.tenant, constants.POOL_LABEL: name}
    if tainted and not draining:
        labels[constants.DEDICATED_LABEL] = spec.tenant
    return Wanted(
        pool=name,
        tenant=spec.tenant,
        draining=draining,
        labels=labels,
        marks=tuple(taints.Taint(spec.taint_key, spec.tenant, effect) for effect in effects),
    )


def patch(node: views.NodeView, target: Wanted | None) -> Operations:
    """Return the JSON patch that makes a node as wanted, or as it was before (None); [] for none."""
    record = read(node)
    if target is None and record is None:
        # What cannot be read says nothing about what was before; it goes, the rest stays.
        return _annotation(node, "") if node.record else []
    labels, listed, before = _restored(node, record)
    text = ""
    if target is not None:
        kept = record.labels_before if record is not None else {}
        new = Record(
            pool=target.pool,
            tenant=target.tenant,
            draining=target.draining,
            labels=target.labels,
            labels_before={key: kept.get(key, labels.get(key)) for key in target.labels},
            marks=target.marks,
            # In the order of our own, which does not change when the node's list is rearranged.
            marks_before=tuple(
                taint for ours in target.marks for taint in before if _same(taint, ours)
            ),
        )
        labels = {**labels, **target.labels}
        listed = _with(listed, target.marks)
        text = msgspec.json.encode(new, order="deterministic").decode()
    return [*_labels(node, labels), *_taints(node, listed), *_annotation(node, text)]


def _same(one: taints.Taint, other: taints.Taint) -> bool:
    return (one.key, one.effect) == (other.key, other.effect)


def _plain(taint: taints.Taint) -> dict[str, Any]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


def _read(raw: Mapping[str, Any]) -> taints.Taint:
    return taints.Taint(raw["key"], raw.get("value") or "", raw["effect"])


def _restored(
    node: views.NodeView, record: Record | None
) -> tuple[dict[str, str], list[dict[str, Any]], list[taints.Taint]]:
    """Return labels and taints as they would be without us, and the taints before us.

    What somebody changed meanwhile is theirs and stays.
    """
    labels, raw = dict(node.labels), [dict(taint) for taint in node.raw_taints]
    if record is None:
        return labels, raw, [_read(taint) for taint in raw]
    for key, value in record.labels.items():
        if labels.get(key) != value:
            continue
        old = record.labels_before.get(key)
        if old is None:
            del labels[key]
        else:
            labels[key] = old
    ours = [taint for taint in record.marks if taint not in record.marks_before]
    raw = [taint for taint in raw if _read(taint) not in ours]
    for taint in record.marks_before:
        if not any(_same(_read(one), taint) for one in raw):
            raw.append(_plain(taint))
    return labels, raw, [_read(taint) for taint in raw]


def _with(raw: list[dict[str, Any]], more: tuple[taints.Taint, ...]) -> list[dict[str, Any]]:
    result = list(raw)
    for taint in more:
        if any(_read(one) == taint for one in result):
            continue
        result = [one for one in result if not _same(_read(one), taint)]
        result.append(_plain(taint))
    return result


def _labels(node: views.NodeView, after: Mapping[str, str]) -> Operations:
    operations: Operations = []
    if not node.labels and after:
        # Somebody else may have made the map meanwhile.
        return [_version(node), {"op": "add", "path": "/metadata/labels", "value": dict(after)}]
    for key in sorted(node.labels.keys() | after.keys()):
        path = jsonpatch.pointer("metadata", "labels", key)
        if key not in after:
            operations += [
                {"op": "test", "path": path, "value": node.labels[key]},
                {"op": "remove", "path": path},
            ]
        elif node.labels.get(key) != after[key]:
            operations.append({"op": "add", "path": path, "value": after[key]})
    return operations


def _taints(node: views.NodeView, after: list[dict[str, Any]]) -> Operations:
    before = [dict(taint) for taint in node.raw_taints]
    if before == after:
        return []
    path = "/spec/taints"
    if not before:
        return [_version(node), {"op": "add", "path": path, "value": after}]
    guard: jsonpatch.Operation = {"op": "test", "path": path, "value": before}
    if not after:
        return [guard, {"op": "remove", "path": path}]
    return [guard, {"op": "replace", "path": path, "value": after}]


def _annotation(node: views.NodeView, text: str) -> Operations:
    if node.record == text:
        return []
    path = jsonpatch.pointer("metadata", "annotations", constants.RECORD_ANNOTATION)
    if not text:
        return [{"op": "remove", "path": path}]
    if not node.has_annotations:
        value = {constants.RECORD_ANNOTATION: text}
        return [_version(node), {"op": "add", "path": "/metadata/annotations", "value": value}]
    return [{"op": "add", "path": path, "value": text}]


def _version(node: views.NodeView) -> jsonpatch.Operation:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version}
