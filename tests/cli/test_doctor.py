"""The command against clusters in which something is missing."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from click import testing as click_testing

from tenantry.apps import certificates, facts, hooks
from tenantry.cli import main
from tenantry.kube import client as kube
from tenantry.local import testing

pytestmark = pytest.mark.plane


def doctor(plane: testing.Plane, *args: str) -> tuple[int, str]:
    """Run it; returns exit code and output."""
    result = click_testing.CliRunner().invoke(
        main.command,
        ["doctor", "--kubeconfig", str(plane.admin), *args],
        standalone_mode=False,
        catch_exceptions=False,
    )
    return result.return_value, result.stdout


def errors(output: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in json.loads(output)["findings"]:
        if each["severity"] == "error":
            found.setdefault(each["check"], []).append(f"{each['subject']} {each['message']}")
    return found


def _lacks_everything(plane: testing.Plane) -> None:
    code, output = doctor(plane, "-o", "json")
    assert code == 3
    wrong = errors(output)
    assert set(wrong) == {"kinds", "permissions", "webhooks"}
    assert any("tenants.capsule.clastix.io does not exist" in each for each in wrong["kinds"])
    assert "no webhook leads to Tenantry" in wrong["webhooks"][0]
    code, output = doctor(plane, "--probe", "http://127.0.0.1:1/")
    assert code == 3
    assert "-> tenantry crds install" in output
    assert "ERROR    roles: http://127.0.0.1:1 does not answer" in output


async def _break_webhook(plane: testing.Plane) -> None:
    """Register a webhook behind which nobody listens, with a real certificate."""
    async with kube.Client(plane.config()) as client:
        serving = certificates.ServingCertificate(client, "capsule-system", ["127.0.0.1"])
        await serving.refresh()
        endpoint = hooks.endpoint("https://127.0.0.1:1", "capsule-system", serving.trust)
        for resource, wanted in hooks.configurations(endpoint, "capsule-system", []):
            await client.apply(resource, wanted, field_manager="test")


@pytest.fixture
def own(new_plane: Any) -> testing.Plane:
    made: testing.Plane = new_plane(components=())
    return made


def test_what_is_missing_is_named_and_what_was_installed_is_well(own: testing.Plane) -> None:
    _lacks_everything(own)
    done = click_testing.CliRunner().invoke(
        main.command, ["crds", "install", "--kubeconfig", str(own.admin)], catch_exceptions=False
    )
    assert "applied" in done.output
    asyncio.run(_break_webhook(own))
    code, output = doctor(own, "-o", "json")
    assert code == 3
    wrong = errors(output)
    assert set(wrong) == {"webhooks"}
    assert "the API server cannot call them" in wrong["webhooks"][0]
    assert "127.0.0.1:1" in wrong["webhooks"][0]
    code, output = doctor(own, "--all")
    assert "ok       permissions: service accounts may do it all" in output
    assert "ok       clock: this machine agrees with the API server" in output
    assert "ok       certificates: tenantry-webhook-tls/tls.crt is valid until" in output


def test_an_unreachable_server_is_a_finding(plane: testing.Plane, tmp_path: Any) -> None:
    dead = tmp_path / "dead.yaml"
    dead.write_text(plane.admin.read_text().replace(plane.server, "https://127.0.0.1:1"))
    result = click_testing.CliRunner().invoke(
        main.command,
        ["doctor", "--kubeconfig", str(dead), "-o", "json"],
        standalone_mode=False,
        catch_exceptions=False,
    )
    assert result.return_value == 3
    assert set(errors(result.stdout)) == {"server"}


def test_a_server_that_does_not_answer_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenantry.cli import doctor as command

    assert (command.PATIENCE, facts.FIRST) == (1.0, 5.0)
    monkeypatch.setattr(command, "PATIENCE", 0.05)
    monkeypatch.setattr(facts, "FIRST", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        given = tmp_path / "config"
        given.write_text(
            json.dumps(
                {
                    "current-context": "a",
                    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                    "clusters": [{"name": "a", "cluster": {"server": address}}],
                    "users": [{"name": "a", "user": {"token": "t"}}],
                }
            )
        )
        began = time.monotonic()
        result = click_testing.CliRunner().invoke(
            main.command, ["doctor", "--kubeconfig", str(given), "-o", "json"],
            standalone_mode=False, catch_exceptions=False,
        )  # fmt: skip
        assert time.monotonic() - began < 4
    assert result.return_value == 3
    assert result.stderr == f"asking {address} ...\n"
    (found,) = [each for each in json.loads(result.stdout)["findings"] if each["check"] == "server"]
    assert "no answer" in found["message"]
