from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.local import supervision as sv

UNITS = (
    sv.Unit(name="store"),
    sv.Unit(name="server", after=("store",), start_timeout=20),
    sv.Unit(name="objects", kind="task", after=("server",), start_timeout=5),
    sv.Unit(name="role", after=("objects",), stop_grace=3),
)


def fresh() -> sv.Supervision:
    # In an order that nothing can rely on.
    return sv.Supervision([UNITS[3], UNITS[1], UNITS[0], UNITS[2]])


def overall(machine: sv.Supervision) -> sv.Overall:
    # As a call, for mypy would take the property's value to stay what it was.
    return machine.overall


def started(now: float = 0.0) -> sv.Supervision:
    """Return a platform that has become ready at `now`."""
    machine = fresh()
    assert machine.step(None, now) == [sv.Spawn("store")]
    for event in (
        sv.Probed("store", ok=True),
        sv.Probed("server", ok=True),
        sv.Done("objects"),
        sv.Probed("role", ok=True),
    ):
        machine.step(event, now)
    assert overall(machine) is sv.Overall.READY
    return machine


class TestStart:
    def test_each_unit_waits_for_what_it_comes_after(self) -> None:
        machine = fresh()
        assert machine.step(None, 0) == [sv.Spawn("store")]
        assert machine.step(None, 0) == [sv.Probe("store")]
        assert machine.step(sv.Probed("store", ok=True), 1) == [sv.Spawn("server")]
        assert machine.step(sv.Probed("server", ok=True), 2) == [sv.Run("objects")]
        assert machine.step(sv.Done("objects"), 3) == [sv.Spawn("role")]
        assert overall(machine) is sv.Overall.STARTING
        assert machine.step(sv.Probed("role", ok=True), 4) == []
        assert overall(machine) is sv.Overall.READY
        assert machine.states["server"].took == 1

    def test_a_probe_is_repeated_until_it_holds(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(None, 0)
        assert machine.step(sv.Probed("store", ok=False, detail="does not listen yet"), 0) == []
        assert machine.next_deadline() == pytest.approx(sv.PROBE_STARTING)
        assert machine.step(None, sv.PROBE_STARTING) == [sv.Probe("store")]
        assert machine.states["store"].reason == "does not listen yet"

    def test_three_failures_end_the_start(self) -> None:
        machine = fresh()
        now = 0.0
        machine.step(None, now)
        for _ in range(sv.ATTEMPTS - 1):
            machine.step(sv.Exited("store", "exited with code 1"), now)
            now = machine.next_deadline() or now
            assert sv.Spawn("store") in machine.step(None, now)
        assert machine.step(sv.Exited("store", "exited with code 1"), now) == []
        assert overall(machine) is sv.Overall.FAILED
        assert machine.failure == "store: exited with code 1"

    def test_what_cannot_be_run_ends_the_start_at_once(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.NotStarted("store", "/bin/etcd cannot be run: Exec format error"), 0)
        assert overall(machine) is sv.Overall.FAILED
        assert "Exec format error" in machine.failure

    def test_what_does_not_become_ready_in_time_is_stopped_and_said_so(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.Probed("store", ok=True), 0)
        machine.step(sv.Probed("server", ok=False, detail="answered 500"), 1)
        assert sv.Terminate("server") in machine.step(None, 20)
        machine.step(sv.Exited("server", "killed by SIGTERM"), 21)
        assert machine.states["server"].reason == "not ready within 20 s: answered 500"
        assert machine.states["server"].phase is sv.Phase.BACKOFF

    def test_a_task_that_hangs_is_cancelled(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.Probed("store", ok=True), 0)
        machine.step(sv.Probed("server", ok=True), 0)
        assert machine.step(None, 5) == [sv.Terminate("objects")]
        machine.step(sv.Done("objects", "cancelled"), 5)
        assert machine.states["objects"].reason == "not ready within 5 s"


class TestRestart:
    def test_a_unit_comes_back_later_each_time_and_for_ever(self) -> None:
        machine = started()
        now, waits = 1.0, []
        for _ in range(10):
            machine.step(sv.Exited("role", "killed by SIGKILL"), now)
            due = machine.states["role"].due
            assert due is not None
            waits.append(due - now)
            now = due
            assert sv.Spawn("role") in machine.step(None, now)
        assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
        assert overall(machine) is sv.Overall.DEGRADED
        assert machine.states["role"].restarts == 10

    def test_a_minute_of_health_is_forgiving(self) -> None:
        machine = started()
        machine.states["role"].failures = 6
        machine.step(sv.Exited("role", "exited with code 1"), sv.FORGIVEN)
        assert machine.states["role"].due == sv.FORGIVEN + sv.BACKOFF_FIRST

    def test_what_it_comes_after_comes_first(self) -> None:
        machine = started()
        machine.step(sv.Exited("store", "killed by SIGKILL"), 1)
        machine.step(sv.Exited("server", "exited with code 1"), 1)
        actions = machine.step(None, 1.5)
        assert sv.Spawn("store") in actions
        assert sv.Spawn("server") not in actions
        assert sv.Spawn("server") in machine.step(sv.Probed("store", ok=True), 2)

    def test_what_failed_for_want_of_another_starts_with_it(self) -> None:
        machine = started()
        for name in ("server", "role"):
            machine.states[name].failures = 6
        machine.step(sv.Exited("store", "exited with code 1"), 1)
        machine.step(sv.Exited("server", "exited with code 1"), 1)
        machine.step(sv.Exited("role", "exited with code 1"), 1)
        assert machine.states["role"].due == 1 + sv.BACKOFF_LAST
        assert machine.step(None, 1.5) == [sv.Spawn("store")]
        assert machine.step(sv.Probed("store", ok=True), 3) == [sv.Spawn("server")]
        # Nobody waits half a minute, nor does the next failure of its own.
        assert machine.step(sv.Probed("server", ok=True), 5) == [sv.Spawn("role")]
        machine.step(sv.Exited("role", "exited with code 1"), 6)
        assert machine.states["role"].due == 6 + sv.BACKOFF_FIRST

    def test_the_others_run_on(self) -> None:
        machine = started()
        actions = machine.step(sv.Exited("store", "killed by SIGKILL"), 1)
        assert actions == []
        assert machine.states["role"].phase is sv.Phase.READY

    def test_a_task_is_not_repeated(self) -> None:
        machine = started()
        machine.step(sv.Exited("server", "killed by SIGKILL"), 1)
        machine.step(None, 1.5)
        assert machine.step(sv.Probed("server", ok=True), 2) == []
        assert overall(machine) is sv.Overall.READY

    def test_a_failing_probe_is_shown_and_nothing_else(self) -> None:
        machine = started()
        assert sv.Probe("role") in machine.step(None, sv.PROBE_READY)
        machine.step(sv.Probed("role", ok=False, detail="answered 503"), sv.PROBE_READY)
        assert machine.states["role"].phase is sv.Phase.UNREADY
        assert machine.states["role"].reason == "answered 503"
        assert overall(machine) is sv.Overall.DEGRADED
        machine.step(sv.Probed("role", ok=True), 2 * sv.PROBE_READY)
        assert overall(machine) is sv.Overall.READY
        assert not machine.states["role"].reason


class TestStop:
    def test_last_started_first_stopped(self) -> None:
        machine = started()
        assert machine.step(sv.Stop(), 1) == [sv.Terminate("role")]
        assert overall(machine) is sv.Overall.STOPPING
        # Not the store yet, though only the finished task stands between it and the role.
        assert machine.step(None, 2) == []
        assert machine.step(sv.Exited("role", "exited with code 0"), 2) == [sv.Terminate("server")]
        assert machine.step(sv.Exited("server", ""), 3) == [sv.Terminate("store")]
        assert machine.step(sv.Exited("store", ""), 4) == []
        assert overall(machine) is sv.Overall.STOPPED
        assert machine.next_deadline() is None

    def test_who_does_not_go_is_killed(self) -> None:
        machine = started()
        machine.step(sv.Stop(), 1)
        assert machine.next_deadline() == 4
        assert machine.step(None, 4) == [sv.Kill("role")]
        assert machine.step(None, 5) == []

    def test_in_the_middle_of_the_start(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.Probed("store", ok=True), 0)
        assert machine.step(sv.Stop(), 1) == [sv.Terminate("server")]
        assert machine.step(sv.Probed("server", ok=True), 1) == []
        assert machine.step(sv.Exited("server", ""), 2) == [sv.Terminate("store")]
        machine.step(sv.Exited("store", ""), 3)
        assert overall(machine) is sv.Overall.STOPPED

    def test_in_the_middle_of_a_task(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.Probed("store", ok=True), 0)
        machine.step(sv.Probed("server", ok=True), 0)
        assert machine.step(sv.Stop(), 1) == [sv.Terminate("objects")]
        assert machine.step(sv.Done("objects", "cancelled"), 1) == [sv.Terminate("server")]

    def test_a_task_that_ends_well_just_then_changes_nothing(self) -> None:
        machine = fresh()
        machine.step(None, 0)
        machine.step(sv.Probed("store", ok=True), 0)
        machine.step(sv.Probed("server", ok=True), 0)
        machine.step(sv.Stop(), 1)
        assert machine.step(sv.Done("objects"), 1) == [sv.Terminate("server")]

    def test_during_a_backoff(self) -> None:
        machine = started()
        machine.step(sv.Exited("role", "exited with code 1"), 1)
        assert machine.step(sv.Stop(), 1.2) == [sv.Terminate("server")]
        assert sv.Spawn("role") not in machine.step(None, 10)

    def test_before_anything_started(self) -> None:
        machine = fresh()
        assert machine.step(sv.Stop(), 0) == []
        assert overall(machine) is sv.Overall.STOPPED


class TestOrder:
    def test_a_circle_is_refused(self) -> None:
        with pytest.raises(ValueError, match="wait for each other"):
            sv.ordered([sv.Unit(name="a", after=("b",)), sv.Unit(name="b", after=("a",))])

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(ValueError, match="ghost"):
            sv.ordered([sv.Unit(name="a", after=("ghost",))])


@given(st.data())
def test_whatever_happens_the_invariants_hold(data: st.DataObject) -> None:
    """Play a shell that lives through anything, and at the end wants it all down."""
    machine = fresh()
    alive: set[str] = set()
    units = {unit.name: unit for unit in UNITS}
    now = 0.0
    stopping = False
    event: sv.Event | None = None
    for turn in range(60):
        for action in machine.step(event, now):
            match action:
                case sv.Spawn(name) | sv.Run(name):
                    assert name not in alive
                    assert not stopping
                    ready = [machine.states[a].phase is sv.Phase.READY for a in units[name].after]
                    assert all(ready)
                    alive.add(name)
                case sv.Terminate(name) | sv.Kill(name):
                    assert name in alive
                case sv.Probe(name):
                    assert name in alive
                    assert units[name].kind == "process"
        stopping = stopping or bool(machine.failure)
        now += data.draw(st.sampled_from([0.0, 0.1, 1.0, 30.0, 100.0]))
        choices: list[sv.Event | None] = [None]
        for name in sorted(alive):
            if units[name].kind == "task":
                choices += [sv.Done(name), sv.Done(name, "refused")]
            else:
                choices += [
                    sv.Exited(name, "exited with code 1"),
                    sv.Probed(name, ok=True),
                    sv.Probed(name, ok=False, detail="no"),
                ]
        if turn > 40:
            choices.append(sv.Stop())
        event = data.draw(st.sampled_from(choices))
        stopping = stopping or isinstance(event, sv.Stop)
        if isinstance(event, sv.Exited | sv.Done):
            alive.discard(event.name)
    pending: list[sv.Event | None] = [event, sv.Stop()]
    for _ in range(40):
        for action in machine.step(pending.pop(0) if pending else None, now):
            assert not isinstance(action, sv.Spawn | sv.Run) or not stopping
            if isinstance(action, sv.Spawn | sv.Run):
                alive.add(action.name)
            if isinstance(action, sv.Terminate) and action.name in alive:
                alive.discard(action.name)
                task = units[action.name].kind == "task"
                pending.append(sv.Done(action.name, "x") if task else sv.Exited(action.name, "x"))
            if isinstance(action, sv.Kill) and action.name in alive:
                alive.discard(action.name)
                pending.append(sv.Exited(action.name, "x"))
        now += 100
        # Who was asked to end before the last loop and has not is gone by now.
        if not pending:
            pending += [
                sv.Done(n, "x") if units[n].kind == "task" else sv.Exited(n, "x")
                for n in sorted(alive)
                if machine.states[n].phase is sv.Phase.STOPPING
            ]
            alive -= {e.name for e in pending if isinstance(e, sv.Done | sv.Exited)}
    assert overall(machine) in {sv.Overall.STOPPED, sv.Overall.FAILED}
    assert machine.next_deadline() is None
