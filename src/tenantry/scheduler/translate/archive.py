"""Read snapshot archives: KAI's `/get-snapshot` and our own, which is the same JSON.

A zip with one `snapshot.json`: `rawObjects` lists the objects as the API gives them, `config` the
actions and plugins, `schedulerParams` the flags.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.core import errors as core_errors
from tenantry.scheduler.engine import config, errors, observed, specs
from tenantry.scheduler.translate import devices, groups, nodes, pods, typed, volumes

Json = Mapping[str, Any]
#: More than this unpacked is not a snapshot; nor is what shrinks by more than this factor (lists of
#: equal pods shrink 15 to 60 times).
MOST_BYTES = 2 << 30
MOST_RATIO = 200
FEW_BYTES = 1 << 20
#: What reading an object of the wrong shape raises.
_UNREADABLE = (
    core_errors.TenantryError,
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
)
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
        content = json.loads(_unpacked(data) if data[:2] == b"PK" else data)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as problem:
        raise errors.InvalidSnapshot(f"not a snapshot archive: {problem}") from problem
    except (RuntimeError, NotImplementedError, OSError, RecursionError, MemoryError) as problem:
        # Encrypted or packed in a way that nobody uses, or nested without end.
        raise errors.InvalidSnapshot(f"cannot be read: {problem}") from problem
    if not isinstance(content, dict) or not isinstance(content.get("rawObjects"), dict):
        raise errors.InvalidSnapshot("snapshot.json has no rawObjects")
    return load(content, now=now)


def _unpacked(data: bytes) -> bytes:
    """Return the one file that an archive is read for, whatever else is in it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = archive.getinfo("snapshot.json")
        if entry.file_size > MOST_BYTES:
            raise errors.InvalidSnapshot(f"snapshot.json has {entry.file_size} bytes unpacked")
        if entry.file_size > FEW_BYTES + MOST_RATIO * len(data):
            raise errors.InvalidSnapshot(
                f"snapshot.json unpacks to {entry.file_size} bytes, more than {MOST_RATIO} times "
                f"the archive's {len(data)}"
            )
        return archive.read(entry)


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
    """Fold the objects of a snapshot; what cannot be read is skipped, with the reason."""
    skipped: list[str] = []
    raw = _lists(content["rawObjects"], skipped)
    params = _mapping(content, "schedulerParams", skipped)
    seen = observed.Observed()
    pool = _mapping(params, "partitionParams", skipped)
    key, value = str(pool.get("nodePoolLabelKey") or ""), str(pool.get("nodePoolLabelValue") or "")

    def fold(kind: str, put: Callable[[Json], Any], *, pooled: bool = False) -> None:
        for item in raw.get(kind, ()):
            try:
                # Nodes, queues and groups of other node pools are not this scheduler's.
                labels = item["metadata"].get("labels") or {}
                if not (pooled and key) or (labels.get(key) or "") == value:
                    put(item)
            except _UNREADABLE as problem:
                skipped.append(f"{kind} {_name(item)}: {problem!r}")

    layouts: dict[str, specs.Numa] = {}
    fold(
        "nodeResourceTopologies",
        lambda item: layouts.__setitem__(item["metadata"]["name"], nodes.numa(item)),
    )
    fold(
        "nodes",
        lambda item: seen.put_node(
            typed.checked(nodes.node(item, layouts.get(item["metadata"]["name"])))
        ),
        pooled=True,
    )
    fold("topologies", lambda item: seen.put_topology(typed.checked(nodes.topology(item))))
    fold(
        "namespaces",
        lambda item: seen.put_namespace(
            item["metadata"]["name"], item["metadata"].get("labels") or {}
        ),
    )
    devices.fold(seen, fold)
    fold(
        "queues",
        lambda item: seen.put_queue(typed.checked(groups.queue(item, missing_is_zero=True))),
        pooled=True,
    )
    classes: dict[str, int] = {}
    defaults: list[int] = []

    def put_class(item: Json) -> None:
        classes[item["metadata"]["name"]] = number = int(item.get("value", 0))
        if item.get("globalDefault"):
            defaults.append(number)

    fold("priorityClasses", put_class)
    default = defaults[0] if defaults else groups.DEFAULT_PRIORITY
    fold(
        "podGroups",
        lambda item: seen.put_job(
            typed.checked(groups.job(item, classes, default, node_pool=value))
        ),
        pooled=True,
    )
    bound: dict[specs.Key, pods.Bound] = {}

    def put_bind(item: Json) -> None:
        request = item["spec"]
        if not _given_up(request, item.get("status") or {}):
            found = pods.Bound(
                request["selectedNode"], tuple(request.get("selectedGPUGroups") or ())
            )
            bound[item["metadata"].get("namespace", ""), request["podName"]] = found

    fold("bindRequests", put_bind)
    translator = pods.Translator(
        scheduler=str(params.get("schedulerName") or pods.SCHEDULER),
        stuck_after=_seconds(params, "stuckInReleasingThreshold", 120.0, skipped),
    )
    extended = any(kind.extended for kind in seen.device_classes.values())

    def put_pod(item: Json) -> None:
        meta = item["metadata"]
        at = bound.get((meta.get("namespace", ""), meta["name"]), pods.UNBOUND)
        task = typed.checked(translator.task(item, now=now, bound_to=at.node, groups=at.groups))
        seen.put_task(devices.with_extended(seen, task) if extended else task)

    fold("pods", put_pod)
    if raw.get("persistentVolumeClaims"):
        usable: dict[specs.Key, frozenset[str] | None] = {}
        by_name: dict[str, Json] = {}
        kinds: dict[str, Json] = {}
        fold("storageClasses", lambda item: kinds.__setitem__(item["metadata"]["name"], item))
        fold("persistentVolumes", lambda item: by_name.__setitem__(item["metadata"]["name"], item))
        fold(
            "persistentVolumeClaims",
            lambda item: usable.update([volumes.usable_on(item, by_name, kinds, seen)]),
        )
        seen.put_volumes(usable)
    if raw.get("configMaps"):
        maps: list[specs.Key] = []
        fold(
            "configMaps",
            lambda item: maps.append(
                (str(item["metadata"].get("namespace", "")), str(item["metadata"]["name"]))
            ),
        )
        seen.put_config_maps(maps)
    return Snapshot(seen, settings(content, skipped), skipped)


def settings(content: Json, skipped: list[str] | None = None) -> config.Config:
    """Return the configuration that a snapshot carries; what cannot be read is the default."""
    skipped = [] if skipped is None else skipped
    given = _mapping(content, "config", skipped)
    params = _mapping(content, "schedulerParams", skipped)
    usual = config.Config()
    names = (name.strip() for name in str(given.get("actions") or "").split(","))
    actions = tuple(name for name in names if name)
    plugins: list[config.PluginChoice] = []
    depth: dict[str, int] = {}
    try:
        for tier in given.get("tiers") or ():
            for plugin in tier.get("plugins") or ():
                arguments = plugin.get("arguments") or {}
                plugins.append(config.PluginChoice(str(plugin["name"]), dict(arguments)))
        depth = {str(k): int(v) for k, v in (given.get("queueDepthPerAction") or {}).items()}
    except _UNREADABLE as problem:
        raise errors.InvalidSnapshot(f"config: {problem!r}") from problem
    victims = params.get("maxNumberConsolidationPreemptees", usual.max_consolidation_victims)
    if not isinstance(victims, int):
        skipped.append(f"schedulerParams maxNumberConsolidationPreemptees: {victims!r}")
        victims = usual.max_consolidation_victims

    def flag(name: str) -> bool:
        return bool(params.get(name, True))

    return config.Config(
        actions=actions or usual.actions,
        plugins=tuple(plugins) or usual.plugins,
        staleness_grace=_seconds(params, "globalDefaultStalenessGracePeriod", 60.0, skipped),
        max_consolidation_victims=victims,
        consolidating_reclaim=flag("allowConsolidatingReclaim"),
        signatures=flag("useSchedulingSignatures"),
        full_hierarchy=flag("fullHierarchyFairness"),
        queue_depth=depth,
    )


def _lists(given: Json, skipped: list[str]) -> dict[str, list[Json]]:
    """Return what is a list of objects; say what is not."""
    found: dict[str, list[Json]] = {}
    for kind, items in given.items():
        if items is None:
            continue
        if not isinstance(items, list):
            skipped.append(f"{kind}: a {type(items).__name__} instead of a list of objects")
            continue
        found[kind] = [item for item in items if isinstance(item, dict)]
        if len(found[kind]) < len(items):
            skipped.append(f"{kind}: {len(items) - len(found[kind])} entries are not objects")
    return found


def _mapping(content: Json, name: str, skipped: list[str]) -> Json:
    value = content.get(name)
    if value is None or isinstance(value, dict):
        return value or {}
    skipped.append(f"{name}: a {type(value).__name__} instead of an object")
    return {}


def _seconds(params: Json, name: str, usual: float, skipped: list[str]) -> float:
    """Return a duration that is written in nanoseconds."""
    value = params.get(name)
    if value is None:
        return usual
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value) / _SECOND
    skipped.append(f"schedulerParams {name}: {value!r} instead of a number of nanoseconds")
    return usual


def _given_up(request: Json, state: Json) -> bool:
    """Tell whether a bind request failed for good, so that its pod waits again."""
    if state.get("phase") != "Failed":
        return False
    limit = request.get("backoffLimit")
    return limit is None or int(state.get("failedAttempts") or 0) >= int(limit)


def _name(item: Json) -> str:
    meta = item.get("metadata")
    return str(meta.get("name", "?")) if isinstance(meta, dict) else "?"
