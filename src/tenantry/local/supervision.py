"""The supervisor's decisions as a machine without I/O: `step(event, now) -> actions`.

Invariants: a unit starts only while everything it comes after is ready; a unit has at most one
process or task at a time; while stopping, a unit is told to end only when everything that comes
after it has ended; once stopping, nothing is started again.

Until the platform has been ready once, a unit that fails `ATTEMPTS` times in a row ends the start:
somebody waits for it and should read why. Afterwards units are restarted for ever, later each
time; one that failed while something it comes after was down starts with that.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ATTEMPTS = 3
BACKOFF_FIRST = 0.5
BACKOFF_LAST = 30.0
#: Seconds of health after which past failures are forgiven.
FORGIVEN = 60.0
PROBE_STARTING = 0.1
PROBE_READY = 10.0


@dataclass(frozen=True, kw_only=True)
class Unit:
    name: str
    #: A process runs until it is stopped, and is ready when its probe says so. A task ends, and
    #: is ready from then on.
    kind: Literal["process", "task"] = "process"
    after: tuple[str, ...] = ()
    #: Seconds from start to ready before it counts as failed.
    start_timeout: float = 60.0
    #: Seconds from the request to end until it is killed.
    stop_grace: float = 10.0


class Phase(enum.Enum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    #: Was ready, and its probe now fails.
    UNREADY = "unready"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Overall(enum.Enum):
    STARTING = "starting"
    READY = "ready"
    #: Has been ready, and some unit is not now.
    DEGRADED = "degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


# Events: what the shell has seen.


@dataclass(frozen=True)
class Exited:
    """A process has ended; `reason` is "exited with code 1" or "killed by SIGKILL"."""

    name: str
    reason: str


@dataclass(frozen=True)
class NotStarted:
    """A process could not be started at all: no such file, not a program."""

    name: str
    reason: str


@dataclass(frozen=True)
class Probed:
    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Done:
    """A task has ended; `reason` is empty when it did its work."""

    name: str
    reason: str = ""


@dataclass(frozen=True)
class Stop:
    """Somebody wants the platform down."""


Event: TypeAlias = Exited | NotStarted | Probed | Done | Stop


# Actions: what the shell shall do.


@dataclass(frozen=True)
class Spawn:
    name: str


@dataclass(frozen=True)
class Run:
    name: str


@dataclass(frozen=True)
class Probe:
    name: str


@dataclass(frozen=True)
class Terminate:
    """Ask a process to end, or cancel a task."""

    name: str


@dataclass(frozen=True)
class Kill:
    name: str


Action: TypeAlias = Spawn | Run | Probe | Terminate | Kill


@dataclass(kw_only=True)
class State:
    """What is known of one unit."""

    unit: Unit
    phase: Phase = Phase.WAITING
    #: A process or task exists.
    alive: bool = False
    since: float = 0.0
    started: float = 0.0
    #: Seconds from start to ready, of the last time.
    took: float | None = None
    #: When the phase is to be looked at again: probe, end of backoff, kill.
    due: float | None = None
    restarts: int = 0
    failures: int = 0
    #: Why it is not ready, in words.
    reason: str = ""


@dataclass
class Supervision:
    """The machine. `units` come in any order; their `after` must not form a circle."""

    units: Sequence[Unit]
    #: Why the start was given up.
    failure: str = ""
    #: Whether every unit has been ready at once.
    reached: bool = False
    states: dict[str, State] = field(init=False)
    _stopping: bool = False
    #: Unit -> every unit that comes after it, directly or not.
    _later: dict[str, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.states = {unit.name: State(unit=unit) for unit in ordered(self.units)}
        self._later = {name: set() for name in self.states}
        for unit in reversed([state.unit for state in self.states.values()]):
            for name in unit.after:
                self._later[name] |= {unit.name} | self._later[unit.name]

    @property
    def overall(self) -> Overall:
        phases = [state.phase for state in self.states.values()]
        if self._stopping:
            if any(state.alive for state in self.states.values()):
                return Overall.STOPPING
            return Overall.FAILED if self.failure else Overall.STOPPED
        if all(phase is Phase.READY for phase in phases):
            return Overall.READY
        return Overall.DEGRADED if self.reached else Overall.STARTING

    def next_deadline(self) -> float | None:
        """Return when `step(None, now)` has something to do even if nothing happens."""
        dues = [state.due for state in self.states.values() if state.due is not None]
        return min(dues, default=None)

    def step(self, event: Event | None, now: float) -> list[Action]:
        """Take in what happened, and return what to do."""
        if event is not None:
            self._take(event, now)
        return self._stop(now) if self._stopping else self._advance(now)

    def _take(self, event: Event, now: float) -> None:
        if isinstance(event, Stop):
            self._stopping = True
            return
        state = self.states[event.name]
        match event:
            case Exited(_, reason):
                state.alive = False
                self._failed(state, reason, now=now)
            case NotStarted(_, reason):
                state.alive = False
                if not self.reached:
                    state.failures = ATTEMPTS
                self._failed(state, reason, now=now)
            case Done(_, reason):
                state.alive = False
                if reason:
                    self._failed(state, reason, now=now)
                elif not self._stopping:
                    self._ready(state, now)
            case Probed(_, ok, detail):
                self._probed(state, ok=ok, detail=detail, now=now)

    def _probed(self, state: State, *, ok: bool, detail: str, now: float) -> None:
        if not state.alive or state.phase not in {Phase.STARTING, Phase.READY, Phase.UNREADY}:
            return  # the answer to a question about a process that is gone
        if ok:
            if state.phase is Phase.STARTING:
                self._ready(state, now)
            elif state.phase is Phase.UNREADY:
                self._enter(state, Phase.READY, now)
            state.reason = ""
            state.due = now + PROBE_READY
        else:
            state.reason = detail
            if state.phase is Phase.READY:
                self._enter(state, Phase.UNREADY, now)
            state.due = now + (PROBE_STARTING if state.phase is Phase.STARTING else PROBE_READY)

    def _ready(self, state: State, now: float) -> None:
        state.took = now - state.started
        state.reason = ""
        self._enter(state, Phase.READY, now)
        if state.unit.kind == "process":
            state.due = now + PROBE_READY
        for name in self._later[state.unit.name]:
            later = self.states[name]
            if later.phase is Phase.BACKOFF and self._carried(name):
                # It failed for want of this one; waits in a row would add up to minutes.
                later.failures, later.due = 0, now
        if all(other.phase is Phase.READY for other in self.states.values()):
            self.reached = True

    def _failed(self, state: State, reason: str, *, now: float) -> None:
        if self._stopping:
            self._enter(state, Phase.STOPPED, now)
            return
        if state.phase in {Phase.READY, Phase.UNREADY} and now - state.since >= FORGIVEN:
            state.failures = 0
        state.failures += 1
        state.restarts += 1
        if state.phase is not Phase.STOPPING:
            # Else it was us: it had not become ready in time, and that stays the reason.
            state.reason = reason
        self._enter(state, Phase.BACKOFF, now)
        state.due = now + min(BACKOFF_FIRST * 2 ** min(state.failures - 1, 10), BACKOFF_LAST)
        if not self.reached and state.failures >= ATTEMPTS:
            self.failure = f"{state.unit.name}: {reason}"
            self._stopping = True

    def _advance(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for state in self.states.values():
            due = state.due is not None and state.due <= now
            match state.phase:
                case Phase.WAITING if self._free(state):
                    actions.append(self._start(state, now))
                case Phase.BACKOFF if due and self._free(state):
                    actions.append(self._start(state, now))
                case Phase.BACKOFF if due:
                    # What it comes after is down too, and brings it along when ready again.
                    self._enter(state, Phase.WAITING, now)
                case Phase.STARTING if due:
                    actions.append(self._ask(state, now))
                case Phase.READY | Phase.UNREADY if due:
                    state.due = None  # until the answer is here
                    actions.append(Probe(state.unit.name))
                case Phase.STOPPING if due:
                    state.due = None
                    actions.append(Kill(state.unit.name))
        return actions

    def _free(self, state: State) -> bool:
        return all(self.states[name].phase is Phase.READY for name in state.unit.after)

    def _carried(self, name: str) -> bool:
        """Tell whether all that a unit comes after, directly or not, is ready."""
        return all(
            state.phase is Phase.READY
            for other, state in self.states.items()
            if name in self._later[other]
        )

    def _start(self, state: State, now: float) -> Action:
        self._enter(state, Phase.STARTING, now)
        state.alive = True
        state.started = now
        if state.unit.kind == "task":
            state.due = now + state.unit.start_timeout
            return Run(state.unit.name)
        state.due = now
        return Spawn(state.unit.name)

    def _ask(self, state: State, now: float) -> Action:
        if now >= state.started + state.unit.start_timeout:
            detail = f": {state.reason}" if state.reason else ""
            state.reason = f"not ready within {state.unit.start_timeout:g} s{detail}"
            return self._end(state, now)
        state.due = state.started + state.unit.start_timeout  # or until the answer is here
        return Probe(state.unit.name)

    def _end(self, state: State, now: float) -> Action:
        self._enter(state, Phase.STOPPING, now)
        state.due = now + state.unit.stop_grace
        return Terminate(state.unit.name)

    def _stop(self, now: float) -> list[Action]:
        actions: list[Action] = []
        # Later ones first, so that a whole chain of things that never started ends in one step.
        for state in reversed(self.states.values()):
            if not state.alive:
                if state.phase is not Phase.STOPPED:
                    self._enter(state, Phase.STOPPED, now)
            elif state.phase is not Phase.STOPPING:
                if not any(self.states[name].alive for name in self._later[state.unit.name]):
                    actions.append(self._end(state, now))
            elif state.due is not None and state.due <= now:
                state.due = None
                actions.append(Kill(state.unit.name))
        for state in self.states.values():
            if state.phase is not Phase.STOPPING:
                state.due = None
        return actions

    def _enter(self, state: State, phase: Phase, now: float) -> None:
        state.phase = phase
        state.since = now
        state.due = None


def ordered(units: Iterable[Unit]) -> list[Unit]:
    """Sort units so that each follows what it comes after; raises ValueError for a circle."""
    waiting = {unit.name: unit for unit in units}
    known = set(waiting)
    found: list[Unit] = []
    placed: set[str] = set()
    while waiting:
        free = [unit for unit in waiting.values() if placed.issuperset(unit.after)]
        if not free:
            unknown = {name for unit in waiting.values() for name in unit.after} - known
            problem = f"unknown {sorted(unknown)}" if unknown else "they wait for each other"
            raise ValueError(f"cannot order {sorted(waiting)}: {problem}")
        for unit in free:
            found.append(unit)
            placed.add(unit.name)
            del waiting[unit.name]
    return found
