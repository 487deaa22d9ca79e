"""Fixtures for tests against a real control plane; nothing starts until a test asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tenantry.local import testing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop that nobody closes.
asyncio.set_event_loop(None)


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
