from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.runtime import store

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")
Value = dict[str, str]


def put(
    held: store.Store[Value], key: store.Key, version: str, uid: str = "u", **value: str
) -> list[store.Event[Value]]:
    return list(held.put(key, value, uid=uid, resource_version=version))


def types(events: list[store.Event[Value]]) -> list[str]:
    return [event.type for event in events]


def test_tells_what_changed_and_nothing_else() -> None:
    held: store.Store[Value] = store.Store()
    (added,) = put(held, A, "1", x="old")
    (modified,) = put(held, A, "2", x="new")

    assert (added.type, added.old, added.new) == ("added", None, {"x": "old"})
    assert (modified.type, modified.old, modified.new) == ("modified", {"x": "old"}, {"x": "new"})
    assert put(held, A, "2", x="new") == []
    assert modified.value == {"x": "new"}


def test_another_object_of_the_same_name_is_a_deletion_and_an_addition() -> None:
    held: store.Store[Value] = store.Store()
    put(held, A, "1", uid="first", x="1")
    events = put(held, A, "5", uid="second", x="2")

    assert types(events) == ["deleted", "added"]
    assert events[0].value == {"x": "1"}
    assert held.uid(A) == "second"


def test_removes_only_the_object_that_was_meant() -> None:
    held: store.Store[Value] = store.Store()
    put(held, A, "5", uid="second")

    assert list(held.remove(A, uid="first")) == []
    assert list(held.remove(B)) == []
    (event,) = held.remove(A, uid="second", final={"x": "end"}, resource_version="9")
    assert (event.type, event.final, event.resource_version) == ("deleted", {"x": "end"}, "9")
    assert held.list() == [] == held.list("ns")
    assert A not in held
    assert held.version(A) == "" == held.uid(A)


def test_the_end_of_a_list_is_a_difference() -> None:
    held: store.Store[Value] = store.Store()
    put(held, A, "1")
    put(held, B, "2")
    # One that was interrupted has seen B.
    held.mark()
    assert held.sees(B, "u", "2")
    held.mark()
    assert not held.sees(A, "u", "2")
    # What comes while it lasts stays.
    put(held, C, "3")
    events = list(held.sweep())

    assert [(event.type, event.key) for event in events] == [("deleted", B)]
    assert held.keys() == [A, C]
    assert not list(held.sweep())


def test_indexes_follow_and_give_several_values() -> None:
    held: store.Store[Value] = store.Store()
    put(held, A, "1", owner="x,y")
    held.add_index("owner", lambda value: value["owner"].split(",") if value["owner"] else ())
    put(held, B, "2", owner="y")

    assert len(held.by_index("owner", "y")) == 2
    put(held, A, "3", owner="z")
    assert held.by_index("owner", "y") == [{"owner": "y"}]
    assert sorted(held.index_values("owner")) == ["y", "z"]
    put(held, B, "4", owner="")
    list(held.remove(A))
    assert held.index_values("owner") == []
    with pytest.raises(ValueError, match="exists"):
        held.add_index("owner", lambda value: ())


def test_replays_the_present_to_a_late_subscriber() -> None:
    held: store.Store[Value] = store.Store()
    put(held, A, "1", x="1")
    put(held, A, "7", x="2")

    assert [(e.type, e.new, e.initial, e.resource_version) for e in held.replay()] == [
        ("added", {"x": "2"}, True, "7")
    ]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "list"]),
        st.sampled_from([("n", "a"), ("n", "b"), ("m", "a"), ("", "c")]),
        st.sampled_from(["u1", "u2"]),
        st.integers(1, 5),
        st.sampled_from(["red", "blue", ""]),
    ),
    max_size=40,
)


@hypothesis.given(OPERATIONS)
def test_events_and_indexes_always_tell_the_contents(
    operations: list[tuple[str, store.Key, str, int, str]],
) -> None:
    held: store.Store[Value] = store.Store()
    held.add_index("colour", lambda value: [value["colour"]] if value["colour"] else [])
    mirror: dict[store.Key, Value] = {}
    for operation, key, uid, version, colour in operations:
        if operation == "put":
            events = put(held, key, str(version), uid, colour=colour)
        elif operation == "remove":
            events = list(held.remove(key, uid=uid))
        else:
            held.mark()
            there = (held.uid(key), held.version(key)) == (uid, str(version))
            assert held.sees(key, uid, str(version)) == there
            events = list(held.sweep())
        for event in events:
            assert mirror.get(event.key) == event.old
            if event.new is None:
                del mirror[event.key]
            else:
                mirror[event.key] = event.new

    assert dict(zip(held.keys(), map(held.get, held.keys()), strict=True)) == mirror
    assert len(held) == len(mirror)
    for namespace in ("n", "m", ""):
        expected = [value for key, value in mirror.items() if key[0] == namespace]
        assert sorted(map(str, held.list(namespace))) == sorted(map(str, expected))
    for colour in ("red", "blue"):
        expected = [value for value in mirror.values() if value["colour"] == colour]
        assert len(held.by_index("colour", colour)) == len(expected)


def test_versions_prove_nothing_once_the_server_has_lost_history() -> None:
    one: store.Store[str] = store.Store()
    list(one.put(("n", "a"), "before", uid="u", resource_version="5"))
    assert not list(one.put(("n", "a"), "after", uid="u", resource_version="5"))
    assert not list(one.put(("n", "a"), "before", uid="u", resource_version="5", afresh=True))
    (event,) = one.put(("n", "a"), "after", uid="u", resource_version="5", afresh=True)
    assert (event.type, event.old, event.new) == ("modified", "before", "after")
