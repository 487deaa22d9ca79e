"""What is kept of the objects that make up an installation; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.apps import conversions, installation
from tenantry.apps.switching import snapshot

Object = dict[str, Any]


def workload(kind: str, raw: bytes) -> snapshot.Workload | None:
    """Keep what runs Capsule: under its ServiceAccount or its name, and not of Tenantry; pure."""
    found: Object = msgspec.json.decode(raw)
    metadata, spec = found["metadata"], found["spec"]
    if installation.LABELS.items() <= (metadata.get("labels") or {}).items():
        return None
    pod = spec["template"]["spec"]
    account = pod.get("serviceAccountName") == constants.CONTROLLER_SERVICE_ACCOUNT
    if not account and metadata["name"] != snapshot.DEPLOYMENT:
        return None
    status = found.get("status") or {}
    replicas = spec.get("replicas", status.get("desiredNumberScheduled", 1))
    words = [
        *(word for one in pod["containers"] for word in (one.get("command") or ())),
        *(word for one in pod["containers"] for word in (one.get("args") or ())),
    ]
    return snapshot.Workload(
        kind=kind, name=metadata["name"], replicas=replicas, arguments=tuple(words)
    )


def webhooks(kind: str, raw: bytes) -> snapshot.Hooks:
    """Keep where a webhook configuration sends requests, but for what Tenantry applied; pure."""
    found: Object = msgspec.json.decode(raw)
    ours = {
        name
        for entry in found["metadata"].get("managedFields") or ()
        if entry.get("operation") == "Apply"
        and str(entry.get("manager")).startswith(f"{constants.FIELD_MANAGER}/")
        for name in (entry.get("fieldsV1") or {}).get("f:webhooks") or ()
    }
    leads = []
    for hook in found.get("webhooks") or ():
        if f"k:{json.dumps({'name': hook['name']}, separators=(',', ':'))}" in ours:
            continue
        client = hook["clientConfig"]
        service = client.get("service")
        if service:
            place = (service["namespace"], service["name"])
            leads.append((hook["name"], place, service.get("path") or "/"))
        else:
            leads.append((hook["name"], ("", client.get("url") or ""), ""))
    return snapshot.Hooks(kind=kind, name=found["metadata"]["name"], webhooks=tuple(leads))


def definition(crd: Object) -> snapshot.Definition:
    """Keep what is compared of one kind; pure."""
    spec = crd["spec"]
    managers = {
        entry.get("manager") for entry in crd["metadata"].get("managedFields") or ()
    }  # fmt: skip
    client = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    service = client.get("service")
    converter = f"{service['namespace']}/{service['name']}" if service else client.get("url") or ""
    return snapshot.Definition(
        name=crd["metadata"]["name"],
        kind=spec["names"]["kind"],
        served=frozenset(one["name"] for one in spec["versions"] if one.get("served")),
        stored=frozenset((crd.get("status") or {}).get("storedVersions") or ()),
        fields={
            one["name"]: frozenset(
                field
                for field in _fields((one.get("schema") or {}).get("openAPIV3Schema") or {}, "")
                if field.startswith("spec")
            )
            for one in spec["versions"]
        },
        converter="" if conversions.FIELD_MANAGER in managers else converter,
    )


def _fields(schema: Mapping[str, Any], prefix: str) -> Iterable[str]:
    for name, below in (schema.get("properties") or {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path
        yield from _fields(below, path)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _fields(items, f"{prefix}[]")
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        yield from _fields(more, f"{prefix}[*]")
