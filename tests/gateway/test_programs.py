"""Programs that list and watch everything they can, at the gateway; see test_clients.

`tests/gateway/clients` holds the few lines of ours around client-go and Argo CD's cluster cache, the
JavaScript client, and what looks at the screen of k9s.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import harness
from .harness import USERS, World
from .test_clients import is_exactly_alices, program, said

pytestmark = [pytest.mark.plane, pytest.mark.long, pytest.mark.timeout(240)]

CLIENTS = Path(__file__).parent / "clients"
OTHERS = ("wind", "kube-", "capsule-", "default")
Found = dict[str, list[str]]


@contextlib.contextmanager
def following(*words: str | Path) -> Iterator[Any]:
    """Run a program that says what it knows, on each line that it is sent; give how to ask it."""
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    first = True

    def ask() -> Found:
        nonlocal first
        if not first:
            stdin.write("\n")
            stdin.flush()
        first = False
        line = stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        found: Found = json.loads(line)
        return found

    try:
        yield ask
    finally:
        process.kill()
        process.communicate()


def is_only_ours(names: list[str]) -> None:
    for name in names:
        namespace, _, bare = name.partition("/")
        # Every namespace has a map named after the cluster's authority.
        assert not namespace.startswith(OTHERS), names
        assert not bare.startswith(("wind", "n-wind", "capsule-")), names


def test_the_javascript_client(world: World) -> None:
    node, client = program("node22/node_modules/.bin/node"), program("node/node_modules")
    script = client.parent / "client.mjs"
    script.write_bytes((CLIENTS / "client.mjs").read_bytes())
    is_exactly_alices(json.loads(said(node, script, world.kubeconfig("alice", USERS))))


def test_informers_of_client_go(world: World) -> None:
    """Typed ones in protobuf, dynamic ones in JSON, and those of metadata alone; over all namespaces."""
    with following(program("bin/informers"), world.kubeconfig("alice", USERS)) as ask:
        before: Found = ask()
        for form in ("typed", "dynamic", "metadata"):
            assert before[f"{form} nodes"] == ["/n-oil"]
            assert before[f"{form} storageclasses"] == ["/oil-fast", "/shared-1"]
            assert {"/oil-1", "/oil-2", "/gas-1"} <= set(before[f"{form} namespaces"])
            assert {"oil-1/oil-1-notes", "gas-1/gas-1-notes"} <= set(before[f"{form} configmaps"])
        for names in before.values():
            is_only_ours(names)
        world.plane.run("create", "configmap", "heard", "-n", "gas-1")
        world.plane.run("create", "configmap", "wind-heard", "-n", "wind-1")
        try:
            keys = [f"{form} configmaps" for form in ("typed", "dynamic", "metadata")]
            harness.eventually(lambda: all("gas-1/heard" in ask()[key] for key in keys))
        finally:
            world.plane.run("delete", "configmap", "heard", "-n", "gas-1")
            world.plane.run("delete", "configmap", "wind-heard", "-n", "wind-1")
        harness.eventually(lambda: not any("gas-1/heard" in ask()[key] for key in keys))
        for names in ask().values():
            is_only_ours(names)


@pytest.mark.parametrize("namespaces", ["oil-1,oil-2", ""], ids=["some", "all"])
def test_the_cluster_cache_of_argo_cd(world: World, namespaces: str) -> None:
    """As the service account of a tenant: with its namespaces given, and for the whole cluster."""
    kinds = "/ConfigMap,/Pod,/Secret,apps/Deployment" + ("" if namespaces else ",/Namespace")
    with following(program("bin/argocache"), world.robot, kinds, namespaces) as ask:
        before: Found = ask()
        assert {"oil-1/oil-1-notes", "oil-2/oil-2-notes"} <= set(before["ConfigMap"])
        for kind, names in before.items():
            is_only_ours(names)
            # The account owns oil alone.
            assert not [name for name in names if "gas" in name], kind
        if not namespaces:
            assert {"/oil-1", "/oil-2"} <= set(before["Namespace"])
        world.plane.run("create", "configmap", "synced", "-n", "oil-2")
        world.plane.run("create", "configmap", "wind-synced", "-n", "wind-1")
        try:
            harness.eventually(lambda: "oil-2/synced" in ask()["ConfigMap"])
        finally:
            world.plane.run("delete", "configmap", "synced", "-n", "oil-2")
            world.plane.run("delete", "configmap", "wind-synced", "-n", "wind-1")
        harness.eventually(lambda: "oil-2/synced" not in ask()["ConfigMap"])
        is_only_ours(ask()["ConfigMap"])


def test_the_cluster_cache_of_everything(world: World) -> None:
    """Every kind that discovery names, of which an owner may list some."""
    with following(program("bin/argocache"), world.robot, "", "") as ask:
        found: Found = ask()
    assert {"/oil-1", "/oil-2"} <= set(found["Namespace"])
    assert found["Tenant"] == ["/oil"]
    for names in found.values():
        is_only_ours(names)


#: What is typed in k9s, and what is then to be seen.
SCREENS = [
    ("", "oil-1"),
    (":nodes\r", "nodes(all)[1]"),
    (":storageclasses\r", "storageclasses(all)[2]"),
    (":tenants\r", "tenants(all)[2]"),
    (":configmaps all\r", "gas-1-notes"),
    (":pods all\r", "pods(all)["),
]


def test_k9s(world: World, tmp_path: Path) -> None:
    python, k9s = program("py/v/bin/python"), program("bin/k9s")
    words = (
        "/usr/bin/env", "TERM=xterm-256color", f"HOME={tmp_path}", f"K9S_CONFIG_DIR={tmp_path}",
        str(k9s), f"--kubeconfig={world.kubeconfig('alice', USERS)}", "--command=namespaces",
        "--headless", "--logoless", "--splashless", "--readonly",
    )  # fmt: skip
    told = said(python, CLIENTS / "screens.py", json.dumps(SCREENS), *words)
    screens = [json.loads(line) for line in told.splitlines()]
    assert len(screens) == len(SCREENS)
    for screen, (_, expected) in zip(screens, SCREENS, strict=True):
        text = "\n".join(screen)
        assert expected in text
        for theirs in ("wind", "kube-system", "capsule-system", "orbidden", "denied"):
            assert theirs not in text, text
    for screen, names in zip(
        screens, (("oil-2", "gas-1"), ("n-oil",), ("oil-fast", "shared-1"), ("oil", "gas")),
        strict=False,
    ):  # fmt: skip
        assert all(name in "\n".join(screen) for name in names)
