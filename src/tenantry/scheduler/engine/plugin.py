"""The two protocols that everything configurable stands behind, and the points plugins extend.

A plugin looks at the session once, when it opens, and registers what it has to say with
`session.points`. An action runs over the open session. Both are found by name (`registry`).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tenantry.scheduler.engine import fold_jobs, gangs, queues, reasons, resources, shapes

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions
    from tenantry.scheduler.engine import solver

JobState = fold_jobs.JobState
Arguments = Mapping[str, Any]


class Plugin(Protocol):
    """Policy in one module: registers functions when a session opens."""

    name: str

    def open(self, session: sessions.Session) -> Iterator[None] | None:
        """Register with `session.points`; called once per cycle, in the configured order.

        A generator function does it in steps: other work of the process runs between them.
        """


class Action(Protocol):
    """One phase of the cycle."""

    name: str

    def run(self, session: sessions.Session) -> Iterator[None]:
        """Change the session through statements; yield often, so that others can run."""


class NodeMask(Protocol):
    """Which nodes a shape may use. `fixed` ones do not depend on what runs."""

    title: str
    fixed: bool

    def everywhere(self) -> resources.Bools:
        """Answer for all nodes."""

    def at(self, node: int) -> bool:
        """Answer for one node."""


class NodeScore(Protocol):
    """How good nodes are for a shape. `fixed` ones do not depend on what runs."""

    fixed: bool

    def everywhere(self) -> resources.Floats:
        """Answer for all nodes."""

    def at(self, node: int) -> float:
        """Answer for one node."""


class RelativeScore(abc.ABC):
    """A score that compares: how good a node is depends on which others could take the task."""

    @abc.abstractmethod
    def among(self, feasible: resources.Bools) -> resources.Floats:
        """Answer for all nodes; asked again whenever what is feasible has changed."""


#: Checked on the chosen node only, because it is costly or depends on the single task.
NodeCheck = Callable[[int, int], reasons.Reason | None]


#: Made once per search for a job and its tasks; then asked for each job that may have to leave.
VictimFilter = Callable[[JobState, Sequence[int]], Callable[[JobState], bool]]


#: Judges a simulated set of victims; a generator where that takes long, with the verdict returned.
Validator = Callable[["solver.Outcome"], bool | Generator[None, None, bool]]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that a part of a gang may use, and extra scores among them."""

    mask: resources.Bools | None
    bonus: resources.Floats | None = None
    #: What keeps a task off the others, for explanations.
    title: str = ""


#: What to try in turn; a reason when nothing could do; None when the plugin has no say.
NodeSets = Iterable[NodeSet] | reasons.Reason | None


@dataclasses.dataclass(slots=True)
class Points:
    """The extension points. Lists are asked in the order of registration."""

    #: Smaller keys first; the keys of all plugins are joined.
    job_keys: list[Callable[[JobState], Any]] = dataclasses.field(default_factory=list)
    #: Added to a job's priority for the order within its queue.
    priority_boosts: list[Callable[[JobState], int]] = dataclasses.field(default_factory=list)
    task_keys: list[Callable[[int], Any]] = dataclasses.field(default_factory=list)
    member_key: Callable[[gangs.Member], Any] | None = None
    queue_orders: list[
        Callable[
            [queues.Queue, queues.Queue, Sequence[queues.Amount], Sequence[queues.Amount]], int
        ]
    ] = dataclasses.field(default_factory=list)
    node_masks: list[Callable[[shapes.Shape], NodeMask | None]] = dataclasses.field(
        default_factory=list
    )
    #: What to work out in steps before a shape's masks are asked for the first time.
    warm: list[Callable[[shapes.Shape], Iterator[None]]] = dataclasses.field(default_factory=list)
    node_scores: list[Callable[[shapes.Shape], NodeScore | RelativeScore | None]] = (
        dataclasses.field(default_factory=list)
    )
    #: What holds for one task beside its shape: nodes it must keep to, and extra scores.
    task_views: list[Callable[[int], NodeSet | None]] = dataclasses.field(default_factory=list)
    node_checks: list[Callable[[shapes.Shape], NodeCheck | None]] = dataclasses.field(
        default_factory=list
    )
    #: May the task start on this node at once, or only when others have left?
    starts: list[Callable[[int, int], bool]] = dataclasses.field(default_factory=list)
    #: Starts of other tasks were taken back: may this one, which is to start, still do so?
    stands: list[Callable[[int], bool]] = dataclasses.field(default_factory=list)
    #: Facts that no eviction changes: a reason ends the attempt before nodes are looked at.
    pre_predicates: list[Callable[[int], str]] = dataclasses.field(default_factory=list)
    #: May these tasks of this job run at all?
    job_checks: list[Callable[[JobState, Sequence[int]], reasons.Reason | None]] = (
        dataclasses.field(default_factory=list)
    )
    node_sets: list[Callable[[JobState, gangs.Member, Sequence[int], NodeSet], NodeSets]] = (
        dataclasses.field(default_factory=list)
    )
    #: Score of a shared device by its used part; -1 stands for a whole one.
    device_scores: list[Callable[[float], float]] = dataclasses.field(default_factory=list)
    #: After a task moved: (row, was on, is on), NOWHERE included.
    moved: list[Callable[[int, int, int], None]] = dataclasses.field(default_factory=list)
    may_reclaim: list[Callable[[JobState, Sequence[int]], reasons.Reason | None]] = (
        dataclasses.field(default_factory=list)
    )
    may_preempt: list[Callable[[JobState, Sequence[int]], reasons.Reason | None]] = (
        dataclasses.field(default_factory=list)
    )
    reclaim_victims: list[VictimFilter] = dataclasses.field(default_factory=list)
    preempt_victims: list[VictimFilter] = dataclasses.field(default_factory=list)
    reclaim_validators: list[Validator] = dataclasses.field(default_factory=list)
    preempt_validators: list[Validator] = dataclasses.field(default_factory=list)
    generators: list[solver.Generator] = dataclasses.field(default_factory=list)
