from __future__ import annotations

import json
from typing import Any

import pytest
from click import testing as click_testing

from tenantry.cli import crds, main
from tenantry.core import yamls
from tenantry.local import testing


def test_what_is_bundled_can_be_listed_and_printed() -> None:
    listed = click_testing.CliRunner().invoke(main.command, ["crds", "list", "-o", "json"])
    names = {crd["metadata"]["name"] for crd in json.loads(listed.output)["items"]}
    assert "tenants.capsule.clastix.io" in names
    printed = click_testing.CliRunner().invoke(main.command, ["crds", "print"])
    assert {crd["metadata"]["name"] for crd in yamls.read(printed.output)} == names
    roles = click_testing.CliRunner().invoke(main.command, ["crds", "print", "--rbac"])
    assert "ClusterRole" in {obj["kind"] for obj in yamls.read(roles.output)}


@pytest.mark.plane
def test_install(
    plane: testing.Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With objects that no other test at this plane looks at."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "crds-install"},
        "rules": [],
    }
    unknown = {"apiVersion": "no.example/v1", "kind": "Nothing", "metadata": {"name": "a"}}
    bundle: dict[str, list[dict[str, Any]]] = {"crds": [], "rbac": [role]}
    monkeypatch.setattr(crds, "bundled", lambda part: bundle[part])
    command = ["crds", "install", "--kubeconfig", str(plane.admin)]
    assert main.run(command) == 0
    assert capsys.readouterr().out == (
        "clusterroles.rbac.authorization.k8s.io/crds-install applied\n"
    )
    bundle["crds"].append(unknown)
    assert main.run([*command, "--no-rbac"]) == 1
    assert capsys.readouterr().err == (
        "Error: the API server does not serve Nothing of no.example/v1\n"
    )
