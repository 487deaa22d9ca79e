"""The tenancy's roles as real processes, on a control plane that these tests share.

Not the plane that all tests share: webhooks and the CapsuleConfiguration are singletons, and some
tests here kill the processes behind them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Generator, Iterator

import pytest

from tenantry.api.capsule import constants
from tenantry.kube import client
from tenantry.local import testing

from . import harness, kinds

# looptime asks for the current loop around every test; before the first async one that would make
# a loop nobody closes. Said once, there is none, and it copes.
asyncio.set_event_loop(None)

_COUNTER = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the roles said last beside a test that failed."""
    report = yield
    world = getattr(item, "funcargs", {}).get("world")
    if report.failed and isinstance(world, harness.World):
        for process in (world.tenancy.controller, world.tenancy.webhook):
            report.sections.append((f"Log of the {process.role}", process.tail()))
    return report


@pytest.fixture(scope="session")
def tenancy(
    planes: testing.Planes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[harness.Tenancy]:
    running = harness.started(planes, tmp_path_factory.mktemp("tenancy"), kinds.manifests())
    for found in running:
        configuration = {
            "apiVersion": constants.API_VERSION,
            "kind": "CapsuleConfiguration",
            "metadata": {"name": constants.CONFIGURATION_NAME},
            "spec": harness.CONFIGURATION,
        }
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        found.plane.run(*apply, stdin=json.dumps(configuration))
        found.wait_for_users()
        yield found


@pytest.fixture
async def world(tenancy: harness.Tenancy) -> AsyncIterator[harness.World]:
    """People and names of the test's own."""
    async with client.Client(tenancy.plane.config()) as admin:
        yield harness.World(admin, f"w{next(_COUNTER)}", tenancy)
