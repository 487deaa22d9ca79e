"""Leadership by a `coordination.k8s.io` Lease.

`Elector` is the machine. It compares only its own observations: a lease counts as expired when it
has not changed *here* for its duration; clocks of other machines are never read. A candidate whose
main loop is silent neither takes nor renews a lease. Time towards the renew deadline runs from the
moment a successful renewal was *sent*. A holder that is proven dead (`mortality`) is waited for only
as long as a write of its may still be under way. The thread around it is `leadership.Leadership`.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
import random
from collections.abc import Callable
from typing import Any

from tenantry.core import clock
from tenantry.runtime import mortality
from tenantry.runtime import timing as timings

Lease = dict[str, Any]


class Problem(enum.Enum):
    """How a write of the lease failed."""

    CONFLICT = enum.auto()
    """Somebody else wrote first; surely not applied."""
    UNKNOWN = enum.auto()
    """Anything else: it may have been applied."""


# --- what happened


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has passed; `silence` is how long the main loop has given no sign of life."""

    silence: float


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """The lease as the API server has it, None when there is none."""

    lease: Lease | None


@dataclasses.dataclass(frozen=True, slots=True)
class ReadFailed:
    """The lease could not be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """A write succeeded; the lease as answered."""

    lease: Lease


@dataclasses.dataclass(frozen=True, slots=True)
class WriteFailed:
    """A write did not succeed, as far as known."""

    problem: Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """Give the lease back and end."""


Input = Tick | Read | ReadFailed | Written | WriteFailed | Stop

# --- what to do


@dataclasses.dataclass(frozen=True, slots=True)
class Get:
    """Read the lease."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create the lease."""

    lease: Lease


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    """Replace the lease; its resourceVersion makes this a compare-and-set."""

    lease: Lease


@dataclasses.dataclass(frozen=True, slots=True)
class Lead:
    """Lead: from now on this process is the leader."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lose:
    """End at once: this process is the leader no longer."""

    reason: str


Action = Get | Create | Update | Lead | Lose

_NEVER = float("inf")


class Elector:
    """The machine; see the module's docstring. `deadline` is when the next `Tick` is due."""

    def __init__(
        self,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: timings.Timing,
        wall: clock.Clock = clock.wall,
        rng: Callable[[], float] = random.random,
        dead: Callable[[str], bool] = mortality.surely_dead,
    ) -> None:
        self._dead = dead
        self._dead_since: tuple[str, float] = ("", 0.0)  # who, and when that was seen
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._timing = timing
        self._wall = wall
        self._rng = rng
        self._lease: Lease | None = None
        self._fresh = False  # whether `_lease` may be used for a compare-and-set
        self._observed_at = 0.0
        self._renewed_at = 0.0
        self._sent_at = 0.0
        self._silence = 0.0
        self._ended = False
        self.leading = False
        self.deadline = 0.0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of this elector: stopped, or lost."""
        return self._ended

    @property
    def expires(self) -> float:
        """When leadership ends unless renewed; no request of a leader may wait longer."""
        return self._renewed_at + self._timing.renew_deadline if self.leading else _NEVER

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen."""
        return _spec(self._lease).get("holderIdentity") or ""

    def step(self, what: Input, now: float) -> list[Action]:
        """Take in one event and return what to do."""
        if self._ended:
            return []
        match what:
            case Stop():
                return self._stop()
            case Tick():
                self._silence = what.silence
                return self._tick(now)
            case Read():
                return self._read(what.lease, now)
            case Written():
                return self._written(what.lease, now)
            case ReadFailed():
                return self._again(now)
            case WriteFailed():
                self._fresh = False
                # After a conflict the truth is one read away; else wait, the server is in trouble.
                return [Get()] if what.problem is Problem.CONFLICT else self._again(now)

    def _tick(self, now: float) -> list[Action]:
        if self.leading:
            if (lost := self._overdue(now)) is not None:
                return lost
            if self._silent:
                return self._again(now)
            if self._fresh:
                return self._write(now)
        return [Get()]

    @property
    def _silent(self) -> bool:
        return self._silence >= self._timing.heartbeat_limit

    def _overdue(self, now: float) -> list[Action] | None:
        if now - self._renewed_at < self._timing.renew_deadline:
            return None
        why = "main loop gives no sign of life" if self._silent else "lease could not be renewed"
        return self._lose(f"{why} within {self._timing.renew_deadline:g} s")

    def _lose(self, reason: str) -> list[Action]:
        self.leading = False
        self._ended = True
        self.deadline = _NEVER
        return [Lose(reason)]

    def _again(self, now: float) -> list[Action]:
        if self.leading and (lost := self._overdue(now)) is not None:
            return lost
        self.deadline = now + self._timing.lease_retry * (1.0 + 0.2 * self._rng())
        if self.leading:
            self.deadline = min(self.deadline, self._renewed_at + self._timing.renew_deadline)
        return []

    def _read(self, lease: Lease | None, now: float) -> list[Action]:
        if lease is None:
            self._lease, self._fresh = None, True
            if self.leading:
                return self._lose("the lease was deleted")
            return self._again(now) if self._silent else self._write(now)
        known = self._lease is not None and _version(self._lease) == _version(lease)
        self._lease, self._fresh = lease, True
        if not known:
            self._observed_at = now
        holder = self.holder
        if holder == self._identity:
            # Ours: by an unknown outcome that was applied after all, or to be renewed.
            return self._again(now) if self._silent else self._write(now)
        if self.leading:
            return self._lose(f"the lease was taken by {holder or 'nobody'}")
        if self._silent:
            return self._again(now)
        if not holder or now >= (free := self._free(holder, now)):
            return self._write(now)
        self._again(now)
        self.deadline = min(self.deadline, free)
        return []

    def _free(self, holder: str, now: float) -> float:
        """Tell when somebody else's lease may be taken."""
        expiry = self._observed_at + float(_spec(self._lease).get("leaseDurationSeconds") or 0)
        if not self._dead(holder):
            self._dead_since = ("", 0.0)
            return expiry
        if self._dead_since[0] != holder:
            self._dead_since = (holder, now)
        return min(expiry, self._dead_since[1] + self._timing.write)

    def _write(self, now: float) -> list[Action]:
        self._sent_at = now
        stamp = clock.rfc3339_micro(self._wall())
        spec: dict[str, Any] = {
            **_spec(self._lease),
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, math.ceil(self._timing.lease)),
            "renewTime": stamp,
        }
        if self.holder != self._identity:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        if self._lease is None:
            spec["leaseTransitions"] = 0
            return [
                Create(
                    {
                        "apiVersion": "coordination.k8s.io/v1",
                        "kind": "Lease",
                        "metadata": {"namespace": self._namespace, "name": self._name},
                        "spec": spec,
                    }
                )
            ]
        return [Update({**self._lease, "spec": spec})]

    def _written(self, lease: Lease, now: float) -> list[Action]:
        self._lease, self._fresh = lease, True
        self._observed_at = now
        self._renewed_at = self._sent_at
        if self.leading:
            return self._again(now)
        if now - self._sent_at >= self._timing.renew_deadline:
            return self._again(now)  # the answer came too late to lead by it
        self.leading = True
        self._again(now)
        return [Lead()]

    def _stop(self) -> list[Action]:
        self._ended = True
        self.deadline = _NEVER
        if not self.leading or not self._fresh or self._lease is None:
            return []
        self.leading = False
        released = copy.deepcopy(self._lease)
        released["spec"].update(
            holderIdentity="",
            leaseDurationSeconds=1,
            renewTime=clock.rfc3339_micro(self._wall()),
        )
        return [Update(released)]


def _spec(lease: Lease | None) -> dict[str, Any]:
    spec: dict[str, Any] = (lease or {}).get("spec") or {}
    return spec


def _version(lease: Lease) -> str:
    version: str = (lease.get("metadata") or {}).get("resourceVersion") or ""
    return version
