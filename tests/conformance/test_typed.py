"""What owners and administrators type, and read: the words are part of the interface."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Shell

pytestmark = pytest.mark.plane

TENANT = """
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata:
  name: {name}
spec:
  owners:
  - kind: User
    name: {owner}
  namespaceOptions:
    quota: 3
  nodeSelector:
    pool: {name}
"""


def give(shell: Shell, name: str, owner: str) -> None:
    shell.ok("admin", "apply -f -", TENANT.format(name=name, owner=owner))


def denied(hook: str, words: str) -> str:
    return f'admission webhook "{hook}.tenantry.io" denied the request: {words}'


#: Seconds between two tries; each starts a kubectl, which takes the time of others.
PAUSE = 0.2


def until(shell: Shell, who: str, line: str, seconds: float = 30.0) -> str:
    """Repeat what must succeed in the end."""
    deadline = time.monotonic() + seconds
    while (done := shell(who, line)).returncode:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(PAUSE)
    return done.stdout


def test_an_owner_works_with_her_own_certificate(shell: Shell) -> None:
    give(shell, "solar", "alice")
    give(shell, "wind", "bob")
    assert shell.ok("alice", "create namespace solar-dev") == "namespace/solar-dev created\n"
    until(shell, "alice", "-n solar-dev create configmap settings --from-literal=a=b")
    assert shell.ok("alice", "auth can-i delete namespace/solar-dev -n solar-dev") == "yes\n"
    shell.ok("bob", "create namespace wind-dev")
    until(shell, "bob", "-n wind-dev get configmaps")
    assert shell.refused("alice", "get namespaces") == (
        'Error from server (Forbidden): namespaces is forbidden: User "alice" cannot list resource '
        '"namespaces" in API group "" at the cluster scope'
    )
    assert "cannot list resource" in shell.refused("alice", "-n wind-dev get configmaps")
    words = "can not assign the desired namespace to a non-owned Tenant"
    manifest = (
        '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"stolen",'
        '"labels":{"capsule.clastix.io/tenant":"wind"}}}'
    )
    error = shell.refused("alice", "create -f -", manifest)
    assert error == (
        'Error from server (BadRequest): error when creating "STDIN": '
        + denied("namespaces.mutating", words)
    )


def test_the_fourth_of_three_namespaces(shell: Shell) -> None:
    give(shell, "coal", "carol")
    for number in range(3):
        shell.ok("carol", f"create namespace coal-{number}")
    assert shell.refused(
        "carol", "create namespace coal-3"
    ) == "Error from server (Forbidden): " + (
        denied(
            "namespaces.validating",
            "Cannot exceed Namespace quota: please, reach out to the system administrators",
        )
    )
    error = shell.refused("carol", "create namespace coal-0")
    assert error.startswith("Error from server (AlreadyExists): ")
    deadline = time.monotonic() + 20
    golden = [
        "NAME   STATE    NAMESPACE QUOTA   NAMESPACE COUNT   NODE SELECTOR     READY   STATUS       "
        "AGE",
        'coal   Active   3                 3                 {"pool":"coal"}   True    reconciled',
    ]
    while True:
        lines = shell.ok("admin", "get tenants coal").splitlines()
        shown = [lines[0].rstrip(), re.sub(r"\s+\d+s$", "", lines[1].rstrip())]
        if shown == golden:
            break
        assert time.monotonic() < deadline, lines
        time.sleep(PAUSE)


def test_the_schema_explains_itself(shell: Shell) -> None:
    assert "owners" in shell.ok("admin", "explain tenant.spec")
    said = shell.ok("admin", "explain tenant.spec.owners")
    assert re.search(r"DESCRIPTION:\n\s+\S+", said)


@pytest.mark.long
@pytest.mark.parametrize("unit", ["controller", "webhook"])
def test_a_killed_role_comes_back(shell: Shell, unit: str) -> None:
    name = f"phoenix-{unit}"
    give(shell, name, "dave")
    before = shell.plane.pid(unit)
    shell.plane.signal(unit, signal.SIGKILL)
    manifest = f"create namespace {name}-a"
    deadline = time.monotonic() + 60
    while (done := shell("dave", manifest)).returncode:
        # Until it is back nothing is let through; the webhook is part of every create.
        assert "failed calling webhook" in done.stderr
        assert time.monotonic() < deadline, done.stderr
        time.sleep(PAUSE)
    label = shell.ok("admin", f"get namespace {name}-a --show-labels --no-headers")
    assert f"capsule.clastix.io/tenant={name}" in label
    until(shell, "dave", f"-n {name}-a get pods", seconds=60)
    after = shell.plane.pid(unit)
    assert after is not None
    assert after != before
