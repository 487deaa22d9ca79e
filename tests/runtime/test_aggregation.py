from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.runtime import aggregation as a
from tenantry.runtime import timing

T = timing.Timing()
POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}


def aggregator() -> a.Aggregator:
    return a.Aggregator(controller="tenantry.io/tenancy", instance="host_1", timing=T)


def occurrence(reason: str = "Bound", **more: Any) -> a.Occurrence:
    return a.Occurrence(
        **{
            "regarding": POD,
            "type": "Normal",
            "reason": reason,
            "action": "Bind",
            "note": "bound",
            **more,
        }
    )


def test_the_first_is_an_event_and_the_rest_are_a_count() -> None:
    one = aggregator()
    (created,) = one.record(occurrence(labels={"l": "1"}, annotations={"k": "2"}), 0.0)
    assert isinstance(created, a.Create)
    event = created.event
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["labels"] == {"l": "1"}
    assert event["metadata"]["annotations"] == {"k": "2"}
    assert event["eventTime"] == "1970-01-01T00:00:00.000000Z"
    assert "series" not in event

    (counted,) = one.record(occurrence(note="again"), 1.0)
    assert isinstance(counted, a.Count)
    assert counted.name == event["metadata"]["name"]
    assert counted.series == {"count": 2, "lastObservedTime": "1970-01-01T00:00:01.000000Z"}
    assert counted.event["series"] == counted.series

    assert [one.record(occurrence(), 2.0 + n) for n in range(5)] == [[]] * 5
    assert one.flush(10.0) == []
    (later,) = one.flush(31.0)
    assert isinstance(later, a.Count)
    assert later.series["count"] == 7
    assert one.flush(100.0) == []


def test_a_series_ends_when_nothing_comes() -> None:
    one = aggregator()
    one.record(occurrence(), 0.0)
    one.record(occurrence(), 1.0)
    one.record(occurrence(), 2.0)
    (last,) = one.flush(700.0)
    assert isinstance(last, a.Count)
    assert last.series["count"] == 3
    assert isinstance(one.record(occurrence(), 701.0)[0], a.Create)


def test_an_object_cannot_flood() -> None:
    one = aggregator()
    created = sum(bool(one.record(occurrence(f"R{n}"), 0.0)) for n in range(100))
    assert created == 25
    assert one.suppressed == 75
    assert one.record(occurrence("Later"), 299.0) == []
    assert one.record(occurrence("Refilled"), 301.0) != []
    other = {**POD, "name": "q", "uid": "v"}
    assert one.record(occurrence(regarding=other), 0.0) != []


def test_what_is_remembered_is_bounded() -> None:
    one = aggregator()
    for number in range(5000):
        one.record(occurrence(regarding={**POD, "uid": str(number)}), 0.0)
    assert len(one._series) == 4096 == len(one._budgets)


def test_stays_within_the_limits_of_the_api() -> None:
    one = aggregator()
    cluster_wide = {"kind": "Namespace", "name": "n" * 253}
    (created,) = one.record(
        occurrence("R" * 200, regarding=cluster_wide, note="é" * 2000, related=POD), 0.0
    )
    assert isinstance(created, a.Create)
    assert created.event["metadata"]["namespace"] == "default"
    assert len(created.event["metadata"]["name"]) <= 253
    assert len(created.event["note"].encode()) <= 1024
    assert len(created.event["reason"]) == 128
    assert created.event["related"] == POD


def test_makes_references() -> None:
    body = {"metadata": {"name": "x", "uid": "u"}}
    assert a.reference(body, resources.NAMESPACES) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": "x",
        "uid": "u",
    }
    assert a.reference({"kind": "Pod", "apiVersion": "v1"}) == {"kind": "Pod", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("home", "within"), [("default", None), ("kube-system", None), ("audit", "audit"), ("", None)]
)
def test_where_events_about_cluster_wide_objects_are(home: str, within: str | None) -> None:
    one = a.Aggregator(controller="c", instance="i", timing=T, home=lambda: home)
    node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    (created,) = one.record(occurrence(regarding=node), 0.0)
    assert isinstance(created, a.Create)
    assert created.event["metadata"]["namespace"] == (home or "default")
    # The API server takes one in another namespace only when it is about something there.
    assert created.event["regarding"].get("namespace") == within
    (elsewhere,) = one.record(occurrence(), 0.0)
    assert isinstance(elsewhere, a.Create)
    assert elsewhere.event["metadata"]["namespace"] == "ns"
