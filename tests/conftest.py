"""Fixtures for tests against a real control plane; nothing starts until a test asks."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist import scheduler

from tenantry.local import testing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop that nobody closes.
asyncio.set_event_loop(None)

# The servers and kubectl are Go; memory is plentiful here, and collecting garbage only above a limit
# saves a third of what an API server costs.
os.environ.setdefault("GOGC", "off")
os.environ.setdefault("GOMEMLIMIT", "1GiB")

#: Directories whose tests share a control plane, or a whole platform on one: each group runs in one
#: worker, else every worker would start them all. They take longest, so they begin first.
TOGETHER = {
    "apps": "apps",
    "gateway": "gateway",
    "nodes": "nodes",
    "local": "local",
    "cli": "local",
    "runtime": "runtime",
    "kube": "runtime",
    "crds": "runtime",
    "faults": "runtime",
    # Platforms of their own, too, so not among the last to begin.
    "conformance": "conformance",
    "test_tutorial.py": "tutorial",
    "test_manifests.py": "manifests",
}
LONGEST = "apps"

# Most properties are quick to break when they break; long runs look further.
hypothesis.settings.register_profile("short", max_examples=50, deadline=None)
hypothesis.settings.register_profile("long", max_examples=1000, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples properties are tried with, where they do not say themselves."""
    short = config.getoption("markexpr") == "not long"
    hypothesis.settings.load_profile("short" if short else "long")


def pytest_collection(session: pytest.Session) -> None:
    """Collect no garbage while thousands of tests are made, none of which is."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Never look at them again."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow ones first; within each group and among files the shuffled order stays."""
    rank = {name: number for number, name in enumerate(dict.fromkeys(TOGETHER.values()))}
    items.sort(key=lambda item: rank.get(together(item.nodeid), len(rank)))


def together(nodeid: str) -> str:
    """Return what a worker gets at a time: a group, or a file."""
    path = nodeid.partition("::")[0]
    return TOGETHER.get(Path(path).name, TOGETHER.get(Path(path).parts[1], path))


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    made = scheduler.LoadScopeScheduling(config, log)
    made._split_scope = together
    return made


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let others wait for the longest group, which would end long after them: with its servers."""
    if together(item.nodeid) != LONGEST and "PYTEST_XDIST_WORKER" in os.environ:
        os.nice(max(0, 3 - os.nice(0)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """End what a group shares with the group's last test: servers that idle cost as tests do."""
    if nextitem is None or together(nextitem.nodeid) == together(item.nodeid):
        return None
    done: bool | None = item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    return done


@pytest.fixture(scope="session")
def planes() -> Iterator[testing.Planes]:
    made = testing.Planes()
    yield made
    made.close()


@pytest.fixture(scope="session")
def plane(planes: testing.Planes) -> testing.Plane:
    """The control plane that all tests share: add to it under names of your own, change nothing."""
    return planes.start()


@pytest.fixture
def new_plane() -> Iterator[Callable[..., testing.Plane]]:
    """Start control planes of a test's own, for changes that others would notice, and for faults."""
    made = testing.Planes()
    yield made.start
    made.close()
