"""Pools on a platform with a real scheduler and simulated nodes, which these tests share.

It has three API servers, of which the last lacks the plugin PodNodeSelector, and twelve nodes of
seed 000, five of them given to tenant01 by hand. Every test takes nodes and names of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tenantry.cli import local
from tenantry.local import nodes, plan, testing

from . import seed
from .stage import POOL, Api, Stage

#: How many nodes there are besides the seed's; the first stays everybody's.
COUNT = 64
_COUNTER = itertools.count(1)
_FREE: list[str] = [f"node-{number}" for number in range(2, COUNT + 1)]


def tenantry_on(machines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return how a platform with these nodes is started."""
    manifests, roles = local.tenantry_roles()
    return {
        "components": plan.OPTIONAL,
        "nodes": tuple(machines),
        "manifests": manifests,
        "roles": [role for role in roles if role.name != local.GATEWAY],
    }


@pytest.fixture(scope="session")
def nodes_plane(planes: testing.Planes) -> testing.Plane:
    machines = (*nodes.generated(COUNT, 1), *map(nodes.completed, seed.twelve()))
    return planes.start(api_servers=3, own_addresses=True, odd_servers=[3], **tenantry_on(machines))


@pytest.fixture(scope="session")
def servers(nodes_plane: testing.Plane) -> Iterator[list[Api]]:
    made = [Api(nodes_plane, number) for number in range(3)]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def bare(nodes_plane: testing.Plane, servers: list[Api]) -> Iterator[Stage]:
    """A stage without nodes of its own."""
    made = Stage(nodes_plane, servers, f"p{next(_COUNTER)}")
    yield made
    for one in made.items(POOL):
        if one["metadata"]["name"].startswith(f"{made.prefix}-"):
            made.delete(POOL, one["metadata"]["name"])


@pytest.fixture
def stage(bare: Stage, take: Callable[[int], list[str]]) -> Stage:
    bare.nodes = take(3)
    return bare


@pytest.fixture(scope="session")
def take() -> Callable[[int], list[str]]:
    """Give nodes that no other test uses."""
    return lambda count: [_FREE.pop(0) for _ in range(count)]
