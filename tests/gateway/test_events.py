"""Watch events in protobuf: looked into, merged and ended as in JSON."""

from __future__ import annotations

import msgspec
import pytest

from tenantry.gateway import decide, events, merge, protobuf, sieve, terms
from tenantry.kube import errors, watch

SHOWN = sieve.predicate(decide.Sieve(terms.named(["a"])))


def field(number: int, content: bytes) -> bytes:
    """Write a short field, as the format's description says."""
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content


def thing(name: str, version: str = "7", *, mark: bool = False) -> bytes:
    metadata = field(1, name.encode()) + field(5, b"u-" + name.encode())
    metadata += field(6, version.encode())
    if mark:
        metadata += field(12, field(1, watch.INITIAL_EVENTS_END.encode()) + field(2, b"true"))
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, b"T")) + field(2, field(1, metadata))


def event(kind: str, wrapped: bytes) -> bytes:
    found = field(1, kind.encode()) + field(2, field(1, wrapped))
    return len(found).to_bytes(4, "big") + found


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_what_is_shown_comes_as_it_was(step: int) -> None:
    machine = sieve.WatchSieve(SHOWN, events.BINARY)
    shown = [event("ADDED", thing("a")), event("BOOKMARK", thing("")), event("DELETED", thing("a"))]
    hidden = event("ADDED", thing("z"))
    said = shown[0] + hidden + shown[1] + hidden + shown[2] + event("DELETED", thing("z"))
    found = b"".join(machine.feed(said[at : at + step]) for at in range(0, len(said), step))
    assert found == b"".join(shown)


def test_what_leaves_is_taken_back() -> None:
    names = {"a"}
    machine = sieve.WatchSieve(lambda one: one.name in names, events.BINARY)
    machine.feed(event("ADDED", thing("a")))
    names.clear()
    changed = thing("a", "8")
    assert machine.feed(event("MODIFIED", changed)) == event("DELETED", changed)
    assert machine.feed(event("MODIFIED", changed)) == b""


@pytest.mark.parametrize(
    "broken",
    [
        field(1, b"ADDED"),
        field(2, field(1, thing("a"))),
        field(1, b"ADDED") + field(1, b"ADDED") + field(2, field(1, thing("a"))),
        field(1, b"ADDED") + field(2, field(1, thing("a")) + field(1, thing("z"))),
        field(1, b"ADDED") + b"\x12\x7f",
        b"\xff" * 12,
    ],
)
def test_what_is_no_event_ends_the_watch(broken: bytes) -> None:
    machine = sieve.WatchSieve(SHOWN, events.BINARY)
    with pytest.raises(errors.Unreachable):
        machine.feed(len(broken).to_bytes(4, "big") + broken)


def test_an_object_that_cannot_be_read_is_not_shown() -> None:
    everything = sieve.WatchSieve(lambda _: True, events.BINARY)
    for wrapped in (b"", b"nonsense", b"k8s\0" + field(2, b"")):
        assert everything.feed(event("ADDED", wrapped)) == b""


def test_an_event_without_end_is_not_waited_for() -> None:
    machine = sieve.WatchSieve(SHOWN, events.BINARY)
    with pytest.raises(errors.Unreachable):
        machine.feed((watch.MAX_LINE + 1).to_bytes(4, "big"))


def test_the_mark_comes_when_all_have_had_theirs() -> None:
    machine = merge.WatchMerge(2, events.BINARY)
    first, second = thing("", "9", mark=True), thing("", "10", mark=True)
    assert machine.feed(0, event("BOOKMARK", thing("", "3"))) == b""
    assert machine.feed(1, event("BOOKMARK", second)) == b""
    assert machine.feed(1, event("ADDED", thing("q"))) == event("ADDED", thing("q"))
    assert machine.feed(0, event("BOOKMARK", first)) == event("BOOKMARK", first)


def test_the_end_is_told_in_each_form() -> None:
    kind, wrapped = protobuf.parse_event(events.BINARY.gone())
    assert kind == "ERROR"
    message = b"what you may see has changed; list again"
    # Status: metadata, status, message, reason, code.
    status = field(1, b"") + field(2, b"Failure") + field(3, message) + field(4, b"Expired")
    assert field(2, status + b"\x30\x9a\x03") in wrapped
    assert field(1, field(1, b"v1") + field(2, b"Status")) in wrapped
    assert message in events.JSON.gone()


@pytest.mark.parametrize(
    ("media", "form"),
    [
        (b"application/json", events.JSON),
        (b"application/vnd.kubernetes.protobuf;stream=watch", events.BINARY),
        (b"", events.JSON),
    ],
)
def test_the_form_is_what_the_answer_says(media: bytes, form: events.Form) -> None:
    assert events.of([(b"content-type", media)]) is form


def test_the_mark_of_tables_is_in_their_row() -> None:
    """What `kubectl get -A -w` asks for."""
    machine = merge.WatchMerge(2)
    marked = {"resourceVersion": "9", "annotations": {watch.INITIAL_EVENTS_END: "true"}}
    row = {"cells": [], "object": {"kind": "PartialObjectMetadata", "metadata": marked}}
    table = {"kind": "Table", "metadata": {"resourceVersion": "9"}, "rows": [row]}
    line = msgspec.json.encode({"type": "BOOKMARK", "object": table}) + b"\n"
    assert machine.feed(0, line) == b""
    assert machine.feed(1, line) == line
