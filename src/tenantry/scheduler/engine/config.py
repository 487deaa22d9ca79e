"""Configuration of the engine: actions and plugins by name, as KAI's configuration has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")


@dataclasses.dataclass(frozen=True, slots=True)
class PluginChoice:
    """A plugin to open, with its arguments."""

    name: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)


#: In the order in which an operator with default values renders them.
PLUGINS = (
    PluginChoice("predicates"),
    PluginChoice("proportion"),
    PluginChoice("priority"),
    PluginChoice("nodeavailability"),
    PluginChoice("resourcetype"),
    PluginChoice("podaffinity"),
    PluginChoice("elastic"),
    PluginChoice("kubeflow"),
    PluginChoice("ray"),
    PluginChoice("subgrouporder"),
    PluginChoice("taskorder"),
    PluginChoice("nominatednode"),
    PluginChoice("dynamicresources"),
    PluginChoice("minruntime"),
    PluginChoice("topology"),
    PluginChoice("snapshot"),
    PluginChoice("sg-nodelocalgreedy"),
    PluginChoice("sg-multinodegang"),
    PluginChoice("gpupack"),
    PluginChoice("nodeplacement", {"cpu": "binpack", "gpu": "binpack"}),
    PluginChoice("gpusharingorder"),
    PluginChoice("nodepreferences"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting of a cycle; durations in seconds, 0 or None as said."""

    actions: tuple[str, ...] = ACTIONS
    plugins: tuple[PluginChoice, ...] = PLUGINS
    #: Grace before a gang that lost its minimum is evicted; negative: never.
    staleness_grace: float = 60.0
    #: Jobs that one consolidation may move; 0 turns it off, -1 sets no bound.
    max_consolidation_victims: int = 16
    #: Reclaim may count victims that find another place as not evicted.
    consolidating_reclaim: bool = True
    #: Skip jobs that look like one that failed already in this action.
    signatures: bool = True
    #: Jobs per queue that each action looks at; None for all. The worst are dropped.
    queue_depth: Mapping[str, int] = dataclasses.field(default_factory=dict)
    #: Time budget of one cycle; what is decided by then is returned. None: no bound.
    cycle_budget: float | None = None
    #: Longest uninterrupted piece of work between two yields.
    slice_seconds: float = 0.02
    #: Budgets of victim search per action (by name, else the first), job and generator; 0: no
    #: bound. A job that is begun may use `least_job_search` even if the action has less left.
    action_search: float = 300.0
    action_searches: Mapping[str, float] = dataclasses.field(default_factory=dict)
    job_search: float = 240.0
    least_job_search: float = 0.0
    generator_search: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {"sg-nodelocalgreedy": 30.0, "sg-multinodegang": 120.0}
    )
    #: False re-parents all leaf queues to one unlimited root and drops the levels above.
    full_hierarchy: bool = True
