"""Find actions and plugins by name. Modules load when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.scheduler.engine import errors, plugin

_PACKAGE = "tenantry.scheduler.engine"

#: Name in a configuration -> module under `plugins/`; each has a `build(arguments)`.
PLUGINS = {
    "aging": "aging",
    "dynamicresources": "dynamicresources",
    "elastic": "elastic",
    "gpupack": "gpupack",
    "gpusharingorder": "gpusharingorder",
    "gpuspread": "gpuspread",
    "kubeflow": "leaders",
    "lending": "lending",
    "minruntime": "minruntime",
    "nodeavailability": "nodeavailability",
    "nodeplacement": "nodeplacement",
    "nodepreferences": "nodepreferences",
    "nominatednode": "nominatednode",
    "numa": "numa",
    "podaffinity": "podaffinity",
    "predicates": "predicates",
    "priority": "priority",
    "proportion": "proportion",
    "ray": "leaders",
    "reflectjoborder": "snapshot",
    "reservation": "reservation",
    "resourcetype": "resourcetype",
    "sg-multinodegang": "multinodegang",
    "sg-nodelocalgreedy": "nodelocalgreedy",
    "snapshot": "snapshot",
    "subgrouporder": "subgrouporder",
    "taskorder": "taskorder",
    "topology": "topology",
}

#: Name in a configuration -> module under `actions/`; each has a `build()`.
ACTIONS = {
    "allocate": "allocate",
    "consolidation": "consolidation",
    "maxruntime": "maxruntime",
    "preempt": "preempt",
    "reclaim": "reclaim",
    "stalegangeviction": "stalegangeviction",
}

_added_plugins: dict[str, Callable[[Mapping[str, Any]], plugin.Plugin]] = {}
_added_actions: dict[str, Callable[[], plugin.Action]] = {}


def add_plugin(name: str, build: Callable[[Mapping[str, Any]], plugin.Plugin]) -> None:
    """Make a plugin from outside this package known under a name."""
    _added_plugins[name] = build


def add_action(name: str, build: Callable[[], plugin.Action]) -> None:
    """Make an action from outside this package known under a name."""
    _added_actions[name] = build


def make_plugin(name: str, arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return a new plugin.

    :raises UnknownName: with the names that exist
    :raises InvalidArguments: when the plugin cannot use them
    """
    build = _added_plugins.get(name)
    if build is None:
        if name not in PLUGINS:
            raise errors.UnknownName("plugin", name, sorted({*PLUGINS, *_added_plugins}))
        build = importlib.import_module(f"{_PACKAGE}.plugins.{PLUGINS[name]}").build
    for key, value in arguments.items():
        if str(value).strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
            raise errors.InvalidArguments(name, f"{key} is {value}; accepted is a finite number")
    try:
        made: plugin.Plugin = build(arguments)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as problem:
        raise errors.InvalidArguments(name, f"{dict(arguments)}: {problem}") from problem
    return made


def make_action(name: str) -> plugin.Action:
    """Return a new action.

    :raises UnknownName: with the names that exist
    """
    if name in _added_actions:
        return _added_actions[name]()
    if name not in ACTIONS:
        raise errors.UnknownName("action", name, sorted({*ACTIONS, *_added_actions}))
    module = importlib.import_module(f"{_PACKAGE}.actions.{ACTIONS[name]}")
    made: plugin.Action = module.build()
    return made
