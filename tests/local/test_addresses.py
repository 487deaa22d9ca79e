"""Addresses for API servers: had where the machine lets us, given back, done without elsewhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from tenantry.local import addresses, plan, platform, progress, state

DESCRIBED = plan.Plan(name="three", binaries={}, api_ports=(7001, 7002, 7003))


@pytest.fixture
def tool() -> str:
    found = addresses._tool()
    if found is None or os.geteuid() != 0:
        pytest.skip("nobody here may configure the network")
    return found


def on_loopback(tool: str) -> set[str]:
    command = [tool, "-o", "-4", "address", "show", "dev", "lo"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    return {line.split()[3].partition("/")[0] for line in listed.splitlines()}


def test_a_name_has_always_the_same_addresses() -> None:
    assert addresses.wanted("a", 3) == addresses.wanted("a", 3)
    assert addresses.wanted("a", 3)[:2] == addresses.wanted("a", 2)
    assert len({addresses.wanted(name, 1) for name in "abcdefgh"}) == 8
    assert all(one.startswith("198.18.") for one in addresses.wanted("a", 9))


def test_without_the_right_each_server_has_a_port_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "_usable", lambda _: False)
    monkeypatch.setattr(addresses, "_tool", lambda: None)
    notes: list[str] = []
    assert addresses.assigned(DESCRIBED, notes.append) is DESCRIBED
    assert "each has a port of its own" in notes[0]
    assert addresses.REMEDY in notes[0]


def test_what_somebody_added_before_needs_no_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_usable", lambda _: True)
    monkeypatch.setattr(addresses, "_tool", lambda: None)
    made = addresses.assigned(DESCRIBED, lambda _: None)
    assert made.addresses == addresses.wanted("three", 3)
    assert made.api_ports == (7001, 7001, 7001)
    assert made.servers[2] == f"https://{made.addresses[2]}:7001"


def test_half_of_them_are_none(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = on_loopback(tool)
    second, add = addresses.wanted("half", 3)[1], addresses._added
    monkeypatch.setattr(addresses, "_added", lambda one: one != second and add(one))
    assert addresses.own("half", 3) == ()
    assert on_loopback(tool) == before


def test_a_platform_that_is_destroyed_gives_its_addresses_back(tool: str, tmp_path: Path) -> None:
    before = on_loopback(tool)
    found = addresses.own("destroyed", 3)
    assert on_loopback(tool) == before | set(found)
    made = platform.Platform("destroyed", environ={"TENANTRY_STATE_DIR": str(tmp_path)})
    described = msgspec.structs.replace(DESCRIBED, name="destroyed", addresses=found)
    made.paths.root.mkdir(parents=True)
    plan.store(described, state.layout("destroyed", made.home))
    made.destroy(progress.Silent())
    assert on_loopback(tool) == before
