"""The gateway in its other ways to tell callers, as real processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib import parse

import pytest

from tenantry.pki import authority

from .harness import USERS, World, eventually
from .test_workers import free_ports, ready

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]


@contextlib.contextmanager
def gateway(
    world: World,
    tmp_path: Path,
    *options: str,
    kubeconfig: Path | None = None,
    ends: int = 0,
    waits: bool = True,
) -> Iterator[int]:
    """Run one; give its port, after which comes that of its probes."""
    credentials = kubeconfig or world.plane.platform.paths.kubeconfig("gateway")
    base = free_ports()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "tenantry", "gateway",
                f"--kubeconfig={credentials}",
                "--bind=127.0.0.1", f"--listening-port={base}", f"--probes=127.0.0.1:{base + 1}",
                "--linger=0", "--grace=1", *options,
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        if waits:
            eventually(lambda: ready(base + 1), 60)
        yield base
    finally:
        process.terminate()
        assert process.wait(30) == ends


def namespaces(url: str, **headers: str) -> tuple[int, list[str]]:
    request = urllib.request.Request(f"{url}/api/v1/namespaces", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as got:
            items = json.loads(got.read())["items"]
            return got.status, [item["metadata"]["name"] for item in items]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, []


XFCC = ("--enable-ssl=false", "--auth-preferred-types=XForwardedClientCert,BearerToken")


@pytest.fixture(scope="module")
def serving(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run one that believes a proxy, and knows the keys of service accounts; give its port."""
    keys = world.plane.platform.paths.pki / "service-account.crt"
    options = (
        *XFCC, "--trusted-proxy-cidrs=127.0.0.0/8", f"--service-account-key-file={keys}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    )  # fmt: skip
    with gateway(world, tmp_path_factory.mktemp("modes"), *options) as port:
        yield port


def test_a_certificate_that_a_trusted_proxy_names(world: World, serving: int) -> None:
    pki = world.plane.platform.paths.pki
    ca = authority.Authority.load((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
    alice = ca.issue_client("alice", [USERS], time.time()).cert
    value = f'By=x;Cert="{parse.quote(alice.decode(), safe="")}";Subject="CN=alice"'
    url = f"http://127.0.0.1:{serving}"
    code, names = namespaces(url, **{"X-Forwarded-Client-Cert": value})
    assert (code, {"oil-1", "gas-1"} <= set(names), "wind-1" in names) == (200, True, False)
    assert namespaces(url)[0] == 401
    assert namespaces(url, **{"X-Forwarded-Client-Cert": f"{value},{value}"})[0] == 401
    # Defect D16: whatever certificate a header held was believed.
    other = authority.Authority.create("other", time.time())
    forged = other.issue_client("alice", [USERS], time.time()).cert
    quoted = parse.quote(forged.decode(), safe="")
    assert namespaces(url, **{"X-Forwarded-Client-Cert": f'Cert="{quoted}"'})[0] == 401


def test_who_would_believe_everybody_does_not_start(world: World) -> None:
    kubeconfig = world.plane.platform.paths.kubeconfig("gateway")
    done = subprocess.run(
        [sys.executable, "-m", "tenantry", "gateway", f"--kubeconfig={kubeconfig}", *XFCC],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "trusted-proxy-cidrs" in done.stderr


def test_service_accounts_are_told_without_a_question(world: World, serving: int) -> None:
    token = world.robot_token
    url = f"http://127.0.0.1:{serving}"
    code, names = namespaces(url, Authorization=f"Bearer {token}")
    assert (code, {"oil-1", "oil-2"} <= set(names), "gas-1" in names) == (200, True, False)
    forged = token[:-8] + "AAAAAAAA"
    assert namespaces(url, Authorization=f"Bearer {forged}")[0] == 401
    with urllib.request.urlopen(f"http://127.0.0.1:{serving + 1}/metrics", timeout=10) as got:
        assert "\ngateway_identity_questions 0\n" in got.read().decode()
