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

#: Whose files take longest. They begin first, so that no worker is left alone with one at the end.
SLOW = ("conformance", "faults", "cli", "local", "apps", "gateway", "runtime", "kube")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order directories; within each the shuffled order stays."""
    rank = {name: number for number, name in enumerate(SLOW)}
    here = Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(here).parts[0], len(SLOW)))


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
