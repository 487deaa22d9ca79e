"""Fixtures for tests against a real control plane; nothing starts until a test asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenantry.local import testing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop that nobody closes.
asyncio.set_event_loop(None)

#: Directories whose tests share a control plane, or a whole platform on one: each group runs in one
#: worker, else every worker would start them all. They take longest, so they begin first.
TOGETHER = {
    "apps": "apps",
    "gateway": "gateway",
    "faults": "faults",
    "local": "local",
    "cli": "local",
    "nodes": "nodes",
    "runtime": "runtime",
    "kube": "runtime",
    "crds": "runtime",
}


def directory(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Say with which other tests a test runs: those of its group, or of its file."""
    group = TOGETHER.get(directory(item), str(item.path))
    item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow ones first; within each group and among files the shuffled order stays."""
    rank = {name: number for number, name in enumerate(["conformance", *TOGETHER])}
    items.sort(key=lambda item: rank.get(directory(item), len(rank)))


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
