from __future__ import annotations

import copy
import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.runtime import election as e
from tenantry.runtime import timing

T = timing.Timing()
ALIVE = e.Tick(0.0)


@dataclasses.dataclass
class Server:
    """The lease as the API server keeps it: one object under compare-and-set."""

    lease: e.Lease | None = None
    version: int = 0

    def answer(self, action: e.Action) -> e.Input:
        match action:
            case e.Get():
                return e.Read(copy.deepcopy(self.lease))
            case e.Create(lease):
                if self.lease is not None:
                    return e.WriteFailed(e.Problem.CONFLICT)
                return self._store(lease)
            case e.Update(lease):
                if self.lease is None or lease["metadata"]["resourceVersion"] != str(self.version):
                    return e.WriteFailed(e.Problem.CONFLICT)
                return self._store(lease)
        raise AssertionError(action)

    def _store(self, lease: e.Lease) -> e.Input:
        self.version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return e.Written(copy.deepcopy(self.lease))

    def play(self, one: e.Elector, what: e.Input, now: float) -> list[e.Action]:
        """Run one exchange to its end; return what is not a request."""
        said: list[e.Action] = []
        pending = one.step(what, now)
        while pending:
            action = pending.pop(0)
            if isinstance(action, e.Lead | e.Lose):
                said.append(action)
            else:
                pending += one.step(self.answer(action), now)
        return said


def elector(identity: str = "one") -> e.Elector:
    return e.Elector(
        namespace="ns", name="lease", identity=identity, timing=T, wall=lambda: 0.0, rng=lambda: 0.0
    )


def spec(server: Server) -> dict[str, object]:
    assert server.lease is not None
    found: dict[str, object] = server.lease["spec"]
    return found


def test_creates_the_lease_and_renews_it() -> None:
    server, one = Server(), elector()
    assert server.play(one, ALIVE, 0.0) == [e.Lead()]
    assert spec(server) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "1970-01-01T00:00:00.000000Z",
        "renewTime": "1970-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert one.deadline == 2.0
    # Renewal is one write, no read.
    (update,) = one.step(ALIVE, 2.0)
    assert isinstance(update, e.Update)
    one.step(server.answer(update), 2.1)
    assert one.expires == 12.0, "counted from when it was sent"


def test_a_candidate_waits_for_the_lease_to_stand_still_here() -> None:
    server, one, two = Server(), elector("one"), elector("two")
    server.play(one, ALIVE, 0.0)
    assert server.play(two, ALIVE, 1.0) == []
    server.play(one, ALIVE, 9.0)
    assert server.play(two, ALIVE, 10.0) == []  # seen renewed at 10
    assert server.play(two, ALIVE, 24.9) == []
    assert two.deadline == 25.0
    assert server.play(two, ALIVE, 25.0) == [e.Lead()]
    assert spec(server)["holderIdentity"] == "two"
    assert spec(server)["leaseTransitions"] == 1
    assert one.step(e.Tick(0.0), 18.9) != []
    assert server.play(one, ALIVE, 18.9)[0] == e.Lose("the lease was taken by two")


def test_a_clock_that_jumps_elsewhere_is_never_looked_at() -> None:
    server, two = Server(), elector("two")
    server.play(elector("one"), ALIVE, 0.0)
    spec(server)["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert server.play(two, ALIVE, 0.0) == []


def test_a_released_lease_is_taken_at_once() -> None:
    server, one, two = Server(), elector("one"), elector("two")
    server.play(one, ALIVE, 0.0)
    server.play(two, ALIVE, 1.0)
    (release,) = one.step(e.Stop(), 3.0)
    server.answer(release)
    assert (spec(server)["holderIdentity"], spec(server)["leaseDurationSeconds"]) == ("", 1)
    assert server.play(two, ALIVE, 3.1) == [e.Lead()]
    assert one.ended
    assert one.step(ALIVE, 4.0) == []


def test_a_candidate_that_stops_writes_nothing() -> None:
    server, two = Server(), elector("two")
    server.play(elector("one"), ALIVE, 0.0)
    server.play(two, ALIVE, 1.0)
    assert two.step(e.Stop(), 2.0) == []


def test_a_main_loop_that_hangs_loses_the_lease() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    assert server.play(one, e.Tick(2.0), 2.0) == []
    version = server.version
    assert server.play(one, e.Tick(5.0), 5.0) == []
    assert server.version == version, "not renewed"
    said: list[e.Action] = []
    while not said:
        said = server.play(one, e.Tick(one.deadline), one.deadline)
    assert said == [e.Lose("main loop gives no sign of life within 10 s")]


def test_a_main_loop_that_comes_back_in_time_keeps_the_lease() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    server.play(one, e.Tick(6.0), 6.0)
    server.play(one, e.Tick(0.1), 8.0)
    assert one.expires == 18.0


def test_a_candidate_whose_main_loop_hangs_takes_nothing() -> None:
    server, one = Server(), elector()
    assert server.play(one, e.Tick(6.0), 0.0) == []
    assert server.lease is None


def test_an_api_server_that_is_away_costs_the_lease_at_the_deadline() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    now = 0.0
    while True:
        now = one.deadline
        actions = one.step(ALIVE, now)
        while actions and not isinstance(actions[0], e.Lose):
            failed = (
                e.ReadFailed()
                if isinstance(actions[0], e.Get)
                else e.WriteFailed(e.Problem.UNKNOWN)
            )
            actions = one.step(failed, now)
        if actions:
            break
    assert now == pytest.approx(10.0)
    assert actions == [e.Lose("lease could not be renewed within 10 s")]


def test_a_renewal_of_unknown_outcome_is_read_back() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    (update,) = one.step(ALIVE, 2.0)
    server.answer(update)  # applied, but the answer is lost
    assert one.step(e.WriteFailed(e.Problem.UNKNOWN), 2.0) == []
    assert one.step(ALIVE, 4.0) == [e.Get()]
    assert server.play(one, server.answer(e.Get()), 4.0) == []
    assert one.leading
    assert one.expires == 14.0


def test_a_creation_of_unknown_outcome_is_not_repeated_blindly() -> None:
    server, one = Server(), elector()
    (get,) = one.step(ALIVE, 0.0)
    (create,) = one.step(server.answer(get), 0.0)
    server.answer(create)
    one.step(e.WriteFailed(e.Problem.UNKNOWN), 0.0)
    assert not one.leading
    assert server.play(one, ALIVE, 2.0) == [e.Lead()]
    assert spec(server)["leaseTransitions"] == 0


def test_a_deleted_lease_is_a_lost_lease() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    server.lease = None
    assert server.play(one, ALIVE, 2.0) == [e.Lose("the lease was deleted")]


def test_an_answer_that_comes_too_late_does_not_make_a_leader() -> None:
    server, one = Server(), elector()
    (get,) = one.step(ALIVE, 0.0)
    (create,) = one.step(server.answer(get), 0.0)
    assert one.step(server.answer(create), 11.0) == []
    assert not one.leading


def test_fields_of_others_in_the_lease_stay() -> None:
    server, one = Server(), elector()
    server.play(one, ALIVE, 0.0)
    assert server.lease is not None
    server.lease["metadata"]["labels"] = {"a": "b"}
    server.lease["spec"]["strategy"] = "OldestEmulationVersion"
    server.version += 1
    server.lease["metadata"]["resourceVersion"] = str(server.version)
    server.play(one, ALIVE, 2.0)
    assert server.lease["metadata"]["labels"] == {"a": "b"}
    assert spec(server)["strategy"] == "OldestEmulationVersion"


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # who
        st.sampled_from(["ok", "ok", "ok", "lost answer", "no answer", "hang", "stop"]),
        st.sampled_from([0.1, 1.0, 2.0, 5.0, 11.0, 16.0]),
    ),
    max_size=60,
)


@hypothesis.given(STEPS)
def test_there_are_never_two_leaders(steps: list[tuple[int, str, float]]) -> None:
    """Each process leads only until `expires`, whatever it knows; those spans never overlap."""
    server = Server()
    electors = [elector(str(number)) for number in range(3)]
    now = 0.0
    for who, how, seconds in steps:
        now += seconds
        one = electors[who]
        pending = one.step(
            e.Stop() if how == "stop" else e.Tick(6.0 if how == "hang" else 0.0), now
        )
        while pending:
            action = pending.pop(0)
            if isinstance(action, e.Lead | e.Lose):
                continue
            failed = (
                e.ReadFailed() if isinstance(action, e.Get) else e.WriteFailed(e.Problem.UNKNOWN)
            )
            if how == "no answer":
                pending += one.step(failed, now)
            elif how == "lost answer":
                server.answer(action)
                pending += one.step(failed, now)
            else:
                pending += one.step(server.answer(action), now)
        if one.ended:
            electors[who] = elector(f"{one._identity}'")
        assert sum(each.leading and each.expires > now for each in electors) <= 1


def standby(dead: set[str]) -> e.Elector:
    return e.Elector(
        namespace="ns", name="lease", identity="two", timing=T, wall=lambda: 0.0, rng=lambda: 0.0,
        dead=dead.__contains__,
    )  # fmt: skip


def test_the_lease_of_the_dead_is_free_once_no_write_of_theirs_can_arrive() -> None:
    server, dead = Server(), {"one"}
    server.play(elector(), ALIVE, 0.0)
    two = standby(dead)
    assert server.play(two, ALIVE, 1.0) == []
    assert two.deadline <= 1.0 + T.lease_retry
    assert server.play(two, ALIVE, 0.9 + T.write) == []
    assert two.deadline == 1.0 + T.write
    assert server.play(two, ALIVE, 1.0 + T.write) == [e.Lead()]


def test_the_dead_never_make_a_lease_longer() -> None:
    server, dead = Server(), set[str]()
    server.play(elector(), ALIVE, 0.0)
    two = standby(dead)
    assert server.play(two, ALIVE, 0.0) == []
    dead.add("one")
    assert server.play(two, ALIVE, T.lease - 1) == []
    assert server.play(two, ALIVE, T.lease) == [e.Lead()]


def test_another_holder_is_waited_for_anew() -> None:
    server, dead = Server(), {"one", "three"}
    server.play(elector(), ALIVE, 0.0)
    two = standby(dead)
    assert server.play(two, ALIVE, 0.0) == []
    assert server.lease is not None
    server.version += 1
    server.lease["metadata"]["resourceVersion"] = str(server.version)
    server.lease["spec"]["holderIdentity"] = "three"
    assert server.play(two, ALIVE, T.write) == []
    dead.discard("three")
    assert server.play(two, ALIVE, 2 * T.write) == []
    assert server.play(two, ALIVE, T.write + T.lease) == [e.Lead()]
