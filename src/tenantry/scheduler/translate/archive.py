"""Read snapshot archives: KAI's `/get-snapshot` and our own, which is the same JSON.

A zip with one `snapshot.json`: `rawObjects` lists the objects as the API gives them, `config` the
actions and plugins, `schedulerParams` the flags.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from tenantry.core import errors as core_errors
from tenantry.scheduler.engine import config, errors, observed, specs
from tenantry.scheduler.translate import devices, groups, nodes, pods, volumes

Json = Mapping[str, Any]
#: More than this unpacked is not a snapshot.
MOST_BYTES = 2 << 30
_SECOND = 1_000_000_000


@dataclasses.dataclass(slots=True)
class Snapshot:
    """What an archive held."""

    seen: observed.Observed
    settings: config.Config
    #: Objects that could not be read, with the reason.
    skipped: list[str]


def read(data: bytes, *, now: float) -> Snapshot:
    """Read an archive or its bare JSON.

    :raises InvalidSnapshot: when it is neither
    """
    try:
        if data[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                if archive.getinfo("snapshot.json").file_size > MOST_BYTES:
                    raise errors.InvalidSnapshot("snapshot.json is too large")
                data = archive.read("snapshot.json")
        content = json.loads(data)
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError) as problem:
        raise errors.InvalidSnapshot(f"not a snapshot archive: {problem}") from problem
    if not isinstance(content, dict) or not isinstance(content.get("rawObjects"), dict):
        raise errors.InvalidSnapshot("snapshot.json has no rawObjects")
    return load(content, now=now)


def write(
    objects: Mapping[str, Any],
    *,
    settings: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> bytes:
    """Make an archive of objects by kind (`nodes`, `pods`, ...), as the API gives them.

    :param settings: `config` of the snapshot: actions and plugins
    :param params: `schedulerParams`
    """
    content = {"config": settings or {}, "schedulerParams": params or {}, "rawObjects": objects}
    buffer = io.BytesIO()
    # A fixed time: equal clusters make equal archives.
    entry = zipfile.ZipInfo("snapshot.json", date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(entry, json.dumps(content, sort_keys=True))
    return buffer.getvalue()


def load(content: Json, *, now: float) -> Snapshot:
    """Fold the objects of a snapshot."""
    raw: dict[str, list[Json]] = content["rawObjects"]
    params = content.get("schedulerParams") or {}
    seen = observed.Observed()
    skipped: list[str] = []

    def fold(kind: str, put: Any) -> None:
        for item in raw.get(kind) or ():
            try:
                put(item)
            except (core_errors.TenantryError, KeyError, TypeError, ValueError) as problem:
                name = (item.get("metadata") or {}).get("name", "?")
                skipped.append(f"{kind} {name}: {problem}")

    layouts: dict[str, specs.Numa] = {}
    fold(
        "nodeResourceTopologies",
        lambda item: layouts.__setitem__(item["metadata"]["name"], nodes.numa(item)),
    )
    fold(
        "nodes",
        lambda item: seen.put_node(nodes.node(item, layouts.get(item["metadata"]["name"]))),
    )
    fold("topologies", lambda item: seen.put_topology(nodes.topology(item)))
    devices.fold(seen, raw, skipped)
    fold("queues", lambda item: seen.put_queue(groups.queue(item, missing_is_zero=True)))
    classes = {
        c["metadata"]["name"]: int(c.get("value", 0)) for c in raw.get("priorityClasses") or ()
    }
    default = next(
        (
            int(c.get("value", 0))
            for c in raw.get("priorityClasses") or ()
            if c.get("globalDefault")
        ),
        groups.DEFAULT_PRIORITY,
    )
    fold("podGroups", lambda item: seen.put_job(groups.job(item, classes, default)))
    bound = {
        (b["metadata"].get("namespace", ""), b["spec"]["podName"]): b["spec"]["selectedNode"]
        for b in raw.get("bindRequests") or ()
        if (b.get("status") or {}).get("phase") != "Failed"
    }
    translator = pods.Translator(
        scheduler=params.get("schedulerName") or pods.SCHEDULER,
        stuck_after=params.get("stuckInReleasingThreshold", 120 * _SECOND) / _SECOND,
    )

    extended = any(kind.extended for kind in seen.device_classes.values())

    def put_pod(item: Json) -> None:
        meta = item["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        task = translator.task(item, now=now, bound_to=bound.get(key, ""))
        seen.put_task(devices.with_extended(seen, task) if extended else task)

    fold("pods", put_pod)
    if raw.get("persistentVolumeClaims"):
        seen.put_volumes(volumes.usable_on(raw, seen))
    if raw.get("configMaps"):
        seen.put_config_maps(
            (m["metadata"].get("namespace", ""), m["metadata"]["name"]) for m in raw["configMaps"]
        )
    return Snapshot(seen, settings(content), skipped)


def settings(content: Json) -> config.Config:
    """Return the configuration that a snapshot carries."""
    given, params = content.get("config") or {}, content.get("schedulerParams") or {}
    defaults = config.Config()
    actions = tuple(
        name.strip() for name in str(given.get("actions") or "").split(",") if name.strip()
    )
    plugins = tuple(
        config.PluginChoice(plugin["name"], plugin.get("arguments") or {})
        for tier in given.get("tiers") or ()
        for plugin in tier.get("plugins") or ()
    )
    return config.Config(
        actions=actions or defaults.actions,
        plugins=plugins or defaults.plugins,
        staleness_grace=params.get("globalDefaultStalenessGracePeriod", 60 * _SECOND) / _SECOND,
        max_consolidation_victims=params.get("maxNumberConsolidationPreemptees", 16),
        consolidating_reclaim=params.get("allowConsolidatingReclaim", True),
        signatures=params.get("useSchedulingSignatures", True),
        full_hierarchy=params.get("fullHierarchyFairness", True),
    )
