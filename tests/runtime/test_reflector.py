from __future__ import annotations

from typing import cast

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.kube import watch
from tenantry.runtime import reflector as r
from tenantry.runtime import timing

T = timing.Timing()


def item(name: str, version: str, uid: str = "u") -> r.Item:
    return r.Item(("ns", name), uid, version, b"{}")


def machine(*, streaming: bool = True, resource_version: str = "") -> r.Reflector:
    return r.Reflector(
        timing=T, streaming=streaming, resource_version=resource_version, rng=lambda: 0.0
    )


def watching(version: str = "10", now: float = 0.0) -> r.Reflector:
    """Return a machine that has listed and watches since `now`."""
    one = machine(streaming=False)
    assert one.step(r.Started(), now) == [r.List()]
    one.step(r.Listed([item("a", "7")], version, last=True), now)
    one.step(r.Opened(), now)
    return one


def test_streams_the_list_and_goes_on_watching() -> None:
    one = machine()
    assert one.step(r.Started(), 0.0) == [r.Watch("", 300, stream=True)]
    assert one.step(r.Opened(), 0.0) == []
    assert one.step(r.Changed("ADDED", item("a", "9")), 1.0) == [r.Put(item("a", "9"), True)]
    # In the list part versions come in no order.
    assert one.step(r.Changed("ADDED", item("b", "3")), 1.0) == [r.Put(item("b", "3"), True)]
    before = one.synced
    assert one.step(r.Bookmark("12", end=True), 1.0) == [r.Complete("12")]
    assert (before, one.synced) == (False, True)
    assert one.step(r.Changed("MODIFIED", item("a", "13")), 2.0) == [
        r.Put(item("a", "13"), initial=False)
    ]
    assert one.step(r.Changed("DELETED", item("b", "14")), 2.0) == [r.Remove(item("b", "14"))]
    assert one.resource_version == "14"


def test_lists_in_pages_and_watches_from_there() -> None:
    one = machine(streaming=False)
    one.step(r.Started(), 0.0)
    assert one.step(r.Listed([item("a", "1")], "10", last=False), 0.0) == [
        r.Put(item("a", "1"), True)
    ]
    assert one.resource_version == ""
    assert one.step(r.Listed([item("b", "2")], "10", last=True), 0.0) == [
        r.Put(item("b", "2"), True),
        r.Complete("10"),
        r.Watch("10", 300, stream=False),
    ]


@pytest.mark.parametrize(
    "event",
    [r.Failed(r.Failure.UNSUPPORTED), r.Bookmark("5"), r.Tick()],
    ids=["refused", "ignored", "silent"],
)
def test_a_server_without_streaming_lists_is_listed_for_good(event: r.Input) -> None:
    one = machine()
    one.step(r.Started(), 0.0)
    if not isinstance(event, r.Failed):
        one.step(r.Opened(), 0.0)
    one.step(event, 100.0)
    assert one.waiting
    assert not one.streaming
    assert one.step(r.Tick(), one.deadline) == [r.List()]


def test_a_watch_that_ran_its_time_is_resumed_at_once() -> None:
    one = watching()
    one.step(r.Bookmark("20"), 100.0)
    assert one.step(r.Ended(), 300.0) == [r.Watch("20", 300, stream=False)]


def test_a_watch_that_ends_as_it_begins_does_not_spin() -> None:
    one = watching()
    now, waits = 0.0, []
    for _ in range(8):
        assert one.step(r.Ended(), now) == []
        waits.append(one.deadline - now)
        now = one.deadline
        assert one.step(r.Tick(), now) == [r.Watch("10", 300, stream=False)]
        one.step(r.Opened(), now)
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])


def test_health_forgives() -> None:
    one = watching()
    for now in (0.0, 1.0, 2.0):
        one.step(r.Failed(r.Failure.OTHER), now)
        one.step(r.Tick(), now)
        one.step(r.Probed("10"), now)
        one.step(r.Opened(), now)
    one.step(r.Failed(r.Failure.OTHER), 200.0)
    assert one.deadline == pytest.approx(200.8)


def test_a_server_that_asks_for_time_gets_it() -> None:
    one = watching()
    one.step(r.Failed(r.Failure.OTHER, retry_after=60.0), 5.0)
    assert one.deadline == 65.0


def test_gone_means_list_again() -> None:
    one = watching()
    assert one.step(r.Failed(r.Failure.GONE), 5.0) == []
    assert one.resource_version == ""
    assert one.step(r.Tick(), one.deadline) == [r.List()]


def test_an_error_keeps_the_version() -> None:
    one = watching()
    one.step(r.Changed("MODIFIED", item("a", "15")), 1.0)
    one.step(r.Failed(r.Failure.OTHER), 5.0)
    assert one.step(r.Tick(), one.deadline) == [r.Probe()]
    assert one.step(r.Probed("15"), one.deadline) == [r.Watch("15", 300, stream=False)]


def test_after_a_failure_a_server_that_lost_history_is_listed_again() -> None:
    one = watching("10")
    one.step(r.Failed(r.Failure.OTHER), 5.0)
    assert one.step(r.Tick(), 6.0) == [r.Probe()]
    assert one.step(r.Probed("9"), 6.0) == [r.List()]
    listed = one.step(r.Listed([item("a", "5")], "9", last=True), 6.0)
    # Version 5 may have been given out twice, so what is held at 5 proves nothing.
    assert listed[0] == r.Put(item("a", "5"), initial=False, afresh=True)
    assert listed[-1] == r.Watch("9", 300, stream=False)
    assert one.step(r.Changed("MODIFIED", item("a", "10")), 7.0) == []
    one.step(r.Opened(), 7.0)
    assert one.step(r.Changed("MODIFIED", item("a", "10")), 7.0) == [
        r.Put(item("a", "10"), initial=False)
    ]


def test_a_probe_that_fails_is_made_again() -> None:
    one = watching("10")
    one.step(r.Failed(r.Failure.OTHER), 5.0)
    assert one.step(r.Tick(), 6.0) == [r.Probe()]
    assert one.step(r.Failed(r.Failure.OTHER), 6.0) == []
    assert one.step(r.Tick(), one.deadline) == [r.Probe()]
    assert one.step(r.Failed(r.Failure.GONE), 9.0) == []
    assert one.step(r.Tick(), one.deadline) == [r.List()]
    assert one.step(r.Probed("8"), 9.0) == [], "an answer nobody waits for"


@pytest.mark.parametrize(
    "event", [r.Bookmark("9"), r.Changed("MODIFIED", item("a", "9"))], ids=["bookmark", "object"]
)
def test_a_server_that_went_back_in_time_is_listed_again(event: r.Input) -> None:
    one = watching("10")
    assert one.step(event, 5.0) == [r.Cut()]
    assert one.resource_version == ""
    assert one.step(r.Tick(), one.deadline) == [r.List()]


def test_versions_that_are_no_numbers_are_never_compared() -> None:
    one = watching("xyz")
    assert one.step(r.Bookmark("abc"), 5.0) == []
    assert one.resource_version == "abc"


def test_silence_is_death_and_any_line_is_life() -> None:
    one = watching()
    assert one.deadline == 70.0
    one.step(r.Bookmark("11"), 60.0)
    assert one.deadline == 130.0
    assert one.step(r.Tick(), 130.0) == [r.Cut()]
    assert one.waiting
    assert one.step(r.Tick(), one.deadline) == [r.Probe()]
    assert one.step(r.Probed("11"), 131.0) == [r.Watch("11", 300, stream=False)]


def test_a_request_that_is_never_answered_is_given_up() -> None:
    one = machine()
    one.step(r.Started(), 0.0)
    assert one.step(r.Tick(), one.deadline) == [r.Cut()]
    assert one.waiting
    assert one.streaming, "it was never accepted, so nothing is known about streaming"


def test_an_interrupted_list_promises_nothing() -> None:
    one = machine(streaming=False)
    one.step(r.Started(), 0.0)
    one.step(r.Listed([item("a", "1")], "10", last=False), 0.0)
    one.step(r.Failed(r.Failure.GONE), 1.0)
    assert not one.synced
    assert one.step(r.Tick(), one.deadline) == [r.List()]
    actions = one.step(r.Listed([item("b", "2")], "20", last=True), 2.0)
    assert r.Complete("20") in actions


def test_an_interrupted_stream_promises_nothing() -> None:
    one = machine()
    one.step(r.Started(), 0.0)
    one.step(r.Opened(), 0.0)
    one.step(r.Changed("ADDED", item("a", "1")), 0.0)
    assert one.step(r.Ended(), 1.0) == []
    assert one.resource_version == ""
    assert one.step(r.Tick(), one.deadline) == [r.Watch("", 300, stream=True)]


def test_an_object_deleted_within_the_list_part_does_not_stay() -> None:
    one = machine()
    one.step(r.Started(), 0.0)
    one.step(r.Opened(), 0.0)
    one.step(r.Changed("ADDED", item("a", "1")), 0.0)
    one.step(r.Changed("DELETED", item("a", "2")), 0.0)
    assert one.step(r.Bookmark("5", end=True), 0.0) == [r.Complete("5")]


def test_resumes_from_a_saved_version() -> None:
    one = machine(resource_version="77")
    assert one.synced
    # Who knows how long ago it was saved, and whether this is the same etcd.
    assert one.step(r.Started(), 0.0) == [r.Probe()]
    assert one.step(r.Probed("80"), 0.0) == [r.Watch("77", 300, stream=False)]


INPUTS = st.one_of(
    st.just(r.Opened()),
    st.just(r.Ended()),
    st.just(r.Tick()),
    st.builds(r.Failed, st.sampled_from(r.Failure), st.sampled_from([0.0, 5.0])),
    st.builds(r.Bookmark, st.sampled_from(["1", "5", "9"]), st.booleans()),
    st.builds(
        r.Changed,
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.builds(item, st.sampled_from("ab"), st.sampled_from(["1", "5", "9"])),
    ),
    st.builds(
        r.Listed,
        st.lists(st.builds(item, st.sampled_from("ab"), st.just("3")), max_size=2),
        st.sampled_from(["4", "8"]),
        st.booleans(),
    ),
)


@hypothesis.given(st.booleans(), st.lists(st.tuples(INPUTS, st.sampled_from([0.0, 1.0, 90.0]))))
def test_whatever_happens_it_goes_on(
    streaming: bool, happenings: list[tuple[r.Input, float]]
) -> None:
    """At most one request is under way, and there is always a next step."""
    one = machine(streaming=streaming)
    now = 0.0
    under_way = one.step(r.Started(), now)
    assert len(under_way) == 1
    for what, seconds in happenings:
        now += seconds
        was_waiting = one.waiting
        actions = one.step(what, now)
        requests = [action for action in actions if isinstance(action, r.List | r.Watch)]
        assert len(requests) <= 1
        if was_waiting and not isinstance(what, r.Tick):
            assert actions == [], "what comes late from a request that is over changes nothing"
        if isinstance(actions[0] if actions else None, r.Cut):
            assert one.waiting
        # Waiting for the answer to a list or to a probe, which has a deadline of its own.
        waiting = {r._State.LISTING, r._State.PROBING}
        assert one.deadline < float("inf") or one._state in waiting
        if one.waiting:
            assert one.deadline <= now + 46.0


def stated(one: r.Reflector) -> object:
    return one.resource_version, one.watching, one.waiting, one.synced, one.afresh


@hypothesis.given(
    st.booleans(),
    st.lists(
        st.tuples(
            st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["1", "9", "10", "11", "99", "100", "x", "yy"]),
        )
    ),
)
def test_following_is_a_shorter_way_to_step(
    watches: bool, lines: list[tuple[str, str, str]]
) -> None:
    def begin() -> r.Reflector:
        if watches:
            return watching()
        one = machine()
        one.step(r.Started(), 0.0)
        one.step(r.Opened(), 0.0)
        return one

    short, long = begin(), begin()
    for kind, name, version in lines:
        if kind == "BOOKMARK":
            mark = r.Bookmark(version, end=True)
            assert short.step(mark, 1.0) == long.step(mark, 1.0)
            continue
        changed = r.Changed(cast("watch.Change", kind), item(name, version))
        actions = long.step(changed, 1.0)
        if short.follow(kind, changed.item):
            what = changed.item
            put = r.Put(what, initial=not short.synced, afresh=short.afresh)
            assert actions == [r.Remove(what) if kind == "DELETED" else put]
        else:
            assert short.step(changed, 1.0) == actions
        assert stated(short) == stated(long)
