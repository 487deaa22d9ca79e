from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api import meta
from tenantry.gateway import decide, merge, sieve, terms

from .conftest import reference

SHOWN = sieve.predicate(decide.Sieve(terms.named(["a", "b"])))


def thing(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "labels": labels}, "spec": {"x": name}}


def row(name: str) -> dict[str, Any]:
    return {"cells": [name], "object": {"kind": "PartialObjectMetadata", **thing(name)}}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def event(kind: str, found: dict[str, Any]) -> bytes:
    return encoded({"type": kind, "object": found}) + b"\n"


def test_a_list_keeps_what_is_shown_and_does_not_count_the_rest() -> None:
    body = {
        "kind": "ThingList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "c", "remainingItemCount": 99},
        "items": [thing("a"), thing("z"), thing("b")],
    }
    found = msgspec.json.decode(sieve.listed(encoded(body), SHOWN))
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]
    assert found["items"][0] == thing("a")
    assert found["metadata"] == {"resourceVersion": "7", "continue": "c"}


def test_a_table_keeps_rows() -> None:
    body = {"kind": "Table", "columnDefinitions": [{"name": "N"}], "rows": [row("z"), row("a")]}
    found = msgspec.json.decode(sieve.listed(encoded(body), SHOWN))
    assert found == {**body, "rows": [row("a")]}


def test_rows_without_an_object_are_not_shown() -> None:
    body = {"kind": "Table", "rows": [{"cells": ["a"], "object": None}, {"cells": ["a"]}]}
    assert msgspec.json.decode(sieve.listed(encoded(body), SHOWN))["rows"] == []


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b'{"kind":"Status"}'])
def test_what_is_not_understood_is_not_shown(body: bytes) -> None:
    assert not sieve.single(body, SHOWN)


def test_one_object() -> None:
    assert sieve.single(encoded(thing("a")), SHOWN)
    assert not sieve.single(encoded(thing("z")), SHOWN)
    assert sieve.single(encoded({"kind": "Table", "rows": [row("a")]}), SHOWN)
    assert not sieve.single(encoded({"kind": "Table", "rows": [row("a"), row("z")]}), SHOWN)


def test_a_namespace_is_shown_by_label_and_reference_together() -> None:
    shown = sieve.predicate(decide.Sieve((), tenants=frozenset(("oil",))))
    label = {"capsule.clastix.io/tenant": "oil"}

    def seen(labels: dict[str, str], *references: dict[str, Any]) -> bool:
        metadata = {"name": "n", "labels": labels, "ownerReferences": list(references)}
        return sieve.single(encoded({"metadata": metadata}), shown)

    assert seen(label, reference("oil"))
    assert not seen(label)
    assert not seen({}, reference("oil"))
    assert not seen(label, reference("wind"))
    assert not seen(label, reference("oil"), reference("wind"))


def test_a_watch_shows_what_comes_and_takes_back_what_goes() -> None:
    selector = terms.labelled(meta.LabelSelector(match_labels={"team": "a"}))
    machine = sieve.WatchSieve(sieve.predicate(decide.Sieve(selector)))
    stream = b"".join(
        (
            event("ADDED", thing("x", team="a")),
            event("ADDED", thing("y", team="b")),
            event("MODIFIED", thing("x", team="b")),
            event("MODIFIED", thing("y", team="b")),
            event("MODIFIED", thing("y", team="a")),
            event("DELETED", thing("y", team="a")),
            event("DELETED", thing("z", team="b")),
            event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
        )
    )
    out = b"".join(machine.feed(stream[i : i + 7]) for i in range(0, len(stream), 7))
    seen = [msgspec.json.decode(line) for line in out.splitlines()]
    assert [(e["type"], e["object"]["metadata"].get("name")) for e in seen] == [
        ("ADDED", "x"),
        ("DELETED", "x"),
        ("MODIFIED", "y"),
        ("DELETED", "y"),
        ("BOOKMARK", None),
    ]


def test_a_watch_of_tables() -> None:
    machine = sieve.WatchSieve(SHOWN)
    table = {"kind": "Table", "columnDefinitions": None, "rows": [row("a")]}
    hidden = {"kind": "Table", "rows": [row("z")]}
    assert machine.feed(event("ADDED", hidden) + event("ADDED", table)) == event("ADDED", table)
    assert machine.feed(event("ADDED", {"kind": "Table", "rows": [row("a"), row("a")]})) == b""


# Merging.


def part(version: str, *names: str) -> merge.Part:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}}
    return merge.part(encoded({**body, "items": [thing(name) for name in names]}))


def whole(*parts: merge.Part, more: str = "") -> dict[str, Any]:
    version = merge.oldest(part.version for part in parts)
    body = merge.whole(parts, kind="PodList", api_version="v1", version=version, more=more)
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


def test_only_a_table_has_rows() -> None:
    """A custom kind may have a field of its own called so, of any shape."""
    found = {**thing("a"), "kind": "Sheet", "rows": "all"}
    assert sieve.single(encoded(found), SHOWN)
    said = event("ADDED", found)
    assert sieve.WatchSieve(SHOWN).feed(said) == said
    bookmark = event("BOOKMARK", {"kind": "Sheet", "rows": 3, "metadata": {"resourceVersion": "9"}})
    assert merge.WatchMerge(1).feed(0, bookmark) == b""


def test_lists_are_joined_at_the_oldest_version() -> None:
    found = whole(part("10", "a"), part("9"), part("11", "b"), more="c")
    assert found["kind"] == "PodList"
    assert found["metadata"] == {"resourceVersion": "9", "continue": "c"}
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]


def test_tables_are_joined_under_one_header() -> None:
    body = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "5"}}
    first = merge.part(encoded({**body, "columnDefinitions": [{"name": "N"}], "rows": [row("a")]}))
    second = merge.part(encoded({**body, "columnDefinitions": [{"name": "N"}], "rows": None}))
    assert (first.count, second.count) == (1, 0)
    found = whole(first, second)
    assert found["columnDefinitions"] == [{"name": "N"}]
    assert found["rows"] == [row("a")]


def test_no_list_is_an_empty_one() -> None:
    assert whole() == {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}


def test_bookmarks_wait_for_the_slowest_stream() -> None:
    def end(version: str) -> bytes:
        annotations = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": version, "annotations": annotations}
        return event("BOOKMARK", {"metadata": metadata})

    machine = merge.WatchMerge(2)
    assert machine.feed(0, event("ADDED", thing("a"))) == event("ADDED", thing("a"))
    assert machine.feed(0, event("BOOKMARK", {"metadata": {"resourceVersion": "5"}})) == b""
    assert machine.feed(0, end("12")) == b""
    assert machine.feed(1, end("9")) == end("9")
