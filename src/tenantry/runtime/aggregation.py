"""Which events are written: first occurrences, then counts, and never a flood.

A machine without I/O, in the terms of `events.k8s.io/v1`. Events about the same thing with the same
type, reason and action within a window are one object whose `series` counts on; counts are written
at the first repetition and then at intervals. An object that causes many *different* events has a
budget for them: a burst, refilled slowly.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.api import resources
from tenantry.core import allowance, clock, names
from tenantry.runtime import timing as timings

Reference = dict[str, Any]

#: Objects and series remembered; beyond that the least recently used is forgotten.
_MOST = 4096
_BURST = 25
#: Limits of the API.
_LONGEST_NOTE = 1024
_LONGEST_REASON = 128
#: Where events about cluster-wide objects are, unless told otherwise, and where they may be as such.
DEFAULT = "default"
_OPEN = (DEFAULT, "kube-system")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something worth telling about an object."""

    regarding: Reference
    type: str
    reason: str
    action: str
    note: str
    related: Reference | None = None
    annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Keeps apart what differs in nothing else but shall not be counted together.
    apart: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create an Event object."""

    event: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """Set the series of an Event by merge patch; `event` is for when it has been deleted."""

    namespace: str
    name: str
    series: dict[str, Any]
    event: dict[str, Any]


Write = Create | Count


@dataclasses.dataclass(slots=True)
class _Series:
    event: dict[str, Any]
    count: int
    last: float
    written: float
    written_count: int


class Aggregator:
    """The machine; `record` for each occurrence, `flush` from time to time."""

    def __init__(
        self,
        *,
        controller: str,
        instance: str,
        timing: timings.Timing,
        home: Callable[[], str] = lambda: DEFAULT,
    ) -> None:
        """Make one.

        :param home: gives the namespace for events about cluster-wide objects
        """
        self._controller = controller
        self._home = home
        self._instance = instance[:128]
        self._timing = timing
        self._series: collections.OrderedDict[tuple[Any, ...], _Series] = collections.OrderedDict()
        self._budgets: collections.OrderedDict[tuple[Any, ...], allowance.Allowance] = (
            collections.OrderedDict()
        )
        self.suppressed = 0

    def record(self, what: Occurrence, now: float) -> list[Write]:
        """Take in one occurrence at wall time `now` and return what to write."""
        about = _identity(what.regarding)
        related = _identity(what.related or {})
        key = (about, what.type, what.reason, what.action, related, what.apart)
        series = self._series.get(key)
        if series is not None and now - series.last <= self._timing.event_window:
            self._series.move_to_end(key)
            series.count += 1
            series.last = now
            first_repetition = series.written_count == 1
            if first_repetition or now - series.written >= self._timing.event_flush:
                return [self._count(series, now)]
            return []
        if not self._afford(about, now):
            self.suppressed += 1
            return []
        event = self._event(what, now)
        self._series[key] = _Series(event, 1, now, now, 1)
        self._series.move_to_end(key)
        if len(self._series) > _MOST:
            self._series.popitem(last=False)
        return [Create(event)]

    def flush(self, now: float) -> list[Write]:
        """Return counts that have grown and were not written for a while; forget ended series."""
        writes: list[Write] = []
        for key, series in list(self._series.items()):
            ended = now - series.last > self._timing.event_window
            due = ended or now - series.written >= self._timing.event_flush
            if series.count > series.written_count and due:
                writes.append(self._count(series, now))
            if ended:
                del self._series[key]
        return writes

    def _count(self, series: _Series, now: float) -> Count:
        series.written, series.written_count = now, series.count
        metadata = series.event["metadata"]
        counted = {"count": series.count, "lastObservedTime": clock.rfc3339_micro(series.last)}
        return Count(
            metadata["namespace"], metadata["name"], counted, {**series.event, "series": counted}
        )

    def _afford(self, about: tuple[Any, ...], now: float) -> bool:
        budget = self._budgets.get(about)
        if budget is None:
            budget = allowance.Allowance(_BURST, self._timing.event_refill, now)
            self._budgets[about] = budget
            if len(self._budgets) > _MOST:
                self._budgets.popitem(last=False)
        self._budgets.move_to_end(about)
        return budget.take(now)

    def _event(self, what: Occurrence, now: float) -> dict[str, Any]:
        regarding = what.regarding
        stamp = clock.rfc3339_micro(now)
        suffix = names.fields_hash(
            (
                what.type,
                what.reason,
                what.action,
                self._instance,
                stamp,
                *map(str, regarding.values()),
            )
        )
        namespace = regarding.get("namespace")
        if not namespace:
            namespace = self._home() or DEFAULT
            if namespace not in _OPEN:
                # Elsewhere the API server wants it to be about something in that namespace.
                regarding = {**regarding, "namespace": namespace}
        metadata: dict[str, Any] = {
            "namespace": namespace,
            "name": f"{regarding.get('name', '')[:200].rstrip('-.')}.{suffix}",
        }
        if what.annotations:
            metadata["annotations"] = dict(what.annotations)
        if what.labels:
            metadata["labels"] = dict(what.labels)
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": metadata,
            "eventTime": stamp,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": what.type,
            "reason": what.reason[:_LONGEST_REASON],
            "action": what.action[:_LONGEST_REASON],
            "note": _cut(what.note),
            "regarding": dict(regarding),
        }
        if what.related is not None:
            event["related"] = dict(what.related)
        return event


def reference(obj: Mapping[str, Any], resource: resources.Resource | None = None) -> Reference:
    """Return the reference to an object that an event needs.

    Objects from a list of a built-in kind do not say what they are; then `resource` does.
    """
    metadata = obj.get("metadata") or {}
    found = {
        "apiVersion": resource.api_version if resource else obj.get("apiVersion", ""),
        "kind": resource.kind if resource else obj.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
    }
    return {key: value for key, value in found.items() if value}


def _identity(about: Reference) -> tuple[Any, ...]:
    return tuple(about.get(key, "") for key in ("apiVersion", "kind", "namespace", "name", "uid"))


def _cut(note: str) -> str:
    # The limit counts bytes.
    encoded = note.encode()
    if len(encoded) <= _LONGEST_NOTE:
        return note
    return encoded[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
