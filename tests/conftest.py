"""Fixtures for tests against a real control plane; nothing starts until a test asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist import scheduler

from tenantry.local import testing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop that nobody closes.
asyncio.set_event_loop(None)

#: Directories whose tests share a control plane, or a whole platform on one: each group runs in one
#: worker, else every worker would start them all. They take longest, so they begin first.
TOGETHER = {
    "apps": "apps",
    "gateway": "gateway",
    "nodes": "nodes",
    "faults": "faults",
    "local": "local",
    "cli": "local",
    "runtime": "runtime",
    "kube": "runtime",
    "crds": "runtime",
    # Long enough to be worth a platform of their own.
    "test_matrix.py": "matrix",
    "test_modes.py": "modes",
    "test_workers.py": "modes",
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow ones first; within each group and among files the shuffled order stays."""
    rank = {name: number for number, name in enumerate([*TOGETHER, "conformance"])}
    here = Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(here).parts[0], len(rank)))


def together(nodeid: str) -> str:
    """Return what a worker gets at a time: a group, or a file."""
    path = nodeid.partition("::")[0]
    return TOGETHER.get(Path(path).name, TOGETHER.get(Path(path).parts[1], path))


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    made = scheduler.LoadScopeScheduling(config, log)
    made._split_scope = together
    return made


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
