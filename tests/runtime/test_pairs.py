from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.runtime import budget, errors, jsonpatch, pairs

KEY = ("shop", "web")


def raw(version: int = 1, **members: Any) -> bytes:
    metadata = {"name": "web", "resourceVersion": str(version), "managedFields": [{"a": version}]}
    return json.dumps({"metadata": {**metadata, **members.pop("metadata", {})}, **members}).encode()


def agreed(source: bytes, target: bytes) -> pairs.Pairs:
    made = pairs.Pairs("deployments.apps")
    made.agree(KEY, source, target)
    return made


@pytest.mark.parametrize(
    ("source", "target", "who"),
    [
        (raw(spec={"n": 1}), raw(spec={"n": 1, "default": 5}), pairs.Side.NEITHER),
        # Versions and managers change with every write, our own included: an echo.
        (raw(7, spec={"n": 1}), raw(9, spec={"default": 5, "n": 1}), pairs.Side.NEITHER),
        (raw(2, spec={"n": 2}), raw(spec={"n": 1, "default": 5}), pairs.Side.SOURCE),
        (raw(spec={"n": 1}), raw(2, spec={"n": 1, "default": 6}), pairs.Side.TARGET),
        (raw(2), raw(2, spec={"n": 1, "default": 5}, status={}), pairs.Side.BOTH),
        (
            raw(2, spec={"n": 1}, metadata={"labels": {"a": "b"}}),
            raw(spec={"n": 1, "default": 5}),
            pairs.Side.SOURCE,
        ),
    ],
)
def test_who_has_changed_an_object_is_known(source: bytes, target: bytes, who: pairs.Side) -> None:
    known = agreed(raw(spec={"n": 1}), raw(spec={"n": 1, "default": 5}))
    assert known.changed(KEY, source, target) is who
    known.forget(KEY)
    assert known.changed(KEY, source, target) is pairs.Side.BOTH
    assert known.carry(KEY, source, target, ["spec"]) is None


def test_a_change_is_carried_over_without_what_the_target_has_of_its_own() -> None:
    known = agreed(
        raw(spec={"n": 1, "image": "a"}), raw(spec={"n": 1, "image": "mirror/a", "new-field": [1]})
    )
    now = raw(5, spec={"n": 3, "image": "a"}, status={"seen": 1})
    target = raw(8, spec={"n": 1, "image": "mirror/a", "new-field": [1, 2]})
    change = known.carry(KEY, now, target, ["spec"])
    assert change == pairs.Change([{"op": "replace", "path": "/spec/n", "value": 3}], ())
    assert json.loads(pairs.edit(target, change.operations))["spec"] == {
        "n": 3, "image": "mirror/a", "new-field": [1, 2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("theirs", "contested"),
    [
        ({"n": 1, "a": {"b": 1}}, ()),
        ({"n": 9, "a": {"b": 1}}, ("/spec/n",)),
        ({"n": 2, "a": {"b": 1}}, ()),  # to the same
        ({"n": 1, "a": {"b": 5}}, ("/spec/a",)),  # within what the source has removed
        ({"a": {"b": 1}}, ("/spec/n",)),
        ({"n": 1, "nn": 2, "a": {"b": 1}}, ()),  # a name is no path
    ],
)
def test_what_both_have_changed_is_named(theirs: dict[str, Any], contested: tuple[str]) -> None:
    start = raw(spec={"n": 1, "a": {"b": 1}})
    change = agreed(start, start).carry(KEY, raw(2, spec={"n": 2}), raw(2, spec=theirs), ["spec"])
    assert change is not None
    assert change.contested == contested


def test_what_is_not_touched_stays_byte_for_byte() -> None:
    odd = b'{"kind":"X", "big":123456789012345678901234567890,"f":1.50e3,"spec":{"a":1},"a/b":{}}'
    edited = pairs.edit(odd, [{"op": "add", "path": "/spec/b", "value": 2}])
    assert b"123456789012345678901234567890" in edited
    assert b"1.50e3" in edited
    assert json.loads(edited)["spec"] == {"a": 1, "b": 2}
    assert pairs.edit(odd, [{"op": "remove", "path": "/spec"}]).count(b"spec") == 0
    assert json.loads(pairs.edit(odd, [{"op": "add", "path": "/a~1b/c", "value": 1}]))["a/b"] == {
        "c": 1
    }
    assert json.loads(pairs.edit(b"{}", [{"op": "add", "path": "/spec", "value": 1}])) == {
        "spec": 1
    }


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "", "value": {}},
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "remove", "path": "/unknown/field"},
        {"op": "replace", "path": "spec", "value": {}},
    ],
)
def test_what_is_no_change_within_a_member_is_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(errors.PatchError):
        pairs.edit(raw(spec={}), [operation])


def test_lists_are_carried_as_a_whole_and_never_by_position() -> None:
    start = raw(spec={"containers": [{"name": "app", "image": "a:1"}], "args": ["x"]})
    injected = raw(
        spec={"containers": [{"name": "proxy"}, {"name": "app", "image": "a:1"}], "args": ["x"]}
    )
    now = raw(spec={"containers": [{"name": "app", "image": "a:2"}], "args": ["x", "y"]})
    change = agreed(start, injected).carry(KEY, now, injected, ["spec"])
    assert change is not None
    assert {each["path"] for each in change.operations} == {"/spec/containers", "/spec/args"}
    # The target's list was never the source's: whoever carries it over must say how.
    assert change.contested == ("/spec/containers",)


def test_what_has_no_place_in_the_target_is_contested() -> None:
    start = raw(spec={"a": {"b": 1}})
    change = agreed(start, raw(spec={})).carry(
        KEY, raw(spec={"a": {"b": 1, "c": 2}}), raw(spec={}), ["spec"]
    )
    assert change is not None
    assert change.contested == ("/spec/a/c",)


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["spec", "data", "x"]), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_carrying_to_an_equal_target_makes_it_equal(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before, after = json.dumps(old).encode(), json.dumps(new).encode()
    change = agreed(before, before).carry(KEY, after, before, ["spec", "data", "x"])
    assert change is not None
    assert not change.contested
    assert jsonpatch.same(json.loads(pairs.edit(before, change.operations)), new)


def test_pairs_are_bounded_and_saved() -> None:
    held = budget.Budget(250)
    known = pairs.Pairs("pods", held)
    known.agree(KEY, b"x" * 100, b"y" * 100)
    known.agree(KEY, b"x" * 120, b"y" * 100)
    assert (held.used, len(known)) == (220, 1)
    with pytest.raises(errors.CacheFullError, match="250 bytes"):
        known.agree(("shop", "other"), b"x" * 20, b"y" * 20)
    known.forget(("shop", "other"))
    assert list(known.items()) == [(KEY, pairs.Pair(b"x" * 120, b"y" * 100))]
    assert known.get(KEY) == pairs.Pair(b"x" * 120, b"y" * 100)
    known.forget(KEY)
    known.forget(KEY)
    assert not len(known)
