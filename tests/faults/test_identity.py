"""Tokens that expire, authorities that are replaced, clocks that jump."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import time
from pathlib import Path

import pytest

from tenantry.api import resources
from tenantry.kube import actions, credentials, errors
from tenantry.kube import client as kube
from tenantry.kube import config as configs
from tenantry.local import testing
from tenantry.pki import authority
from tenantry.runtime import leadership, timing

from . import proxy as proxies
from .conftest import Follow, fill

pytestmark = pytest.mark.plane


async def account(admin: kube.Client, namespace: str) -> str:
    """Make a service account that may do everything; return a token of it."""
    await admin.create(
        resources.SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "namespace": namespace}}
    )
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    await admin.create(
        resources.CLUSTER_ROLE_BINDINGS,
        {"metadata": {"name": f"robot-{namespace}"}, "roleRef": role, "subjects": [subject]},
    )
    return (await actions.issue_token(admin, "robot", namespace)).token


async def test_a_token_expires_and_its_file_has_the_next(
    plane: testing.Plane, admin: kube.Client, namespace: str, follow: Follow, tmp_path: Path
) -> None:
    token = await account(admin, namespace)
    await fill(admin, namespace, 3)
    file = tmp_path / "token"
    file.write_text(token)
    with proxies.Proxy(plane.config(), identity=False) as strict:
        oracle = await follow(source=strict.config(token_file=str(file)))
        # From now on the server knows it no longer, and the file is not due for a look.
        header = f"Bearer {token}"
        strict.add(
            proxies.Answer(401, "Unauthorized"),
            lambda seen: seen.authorization == header,
            times=None,
        )
        file.write_text((await actions.issue_token(admin, "robot", namespace)).token)
        strict.cut()
        await fill(admin, namespace, 2, prefix="b")
        await oracle.agrees(admin)
        # Asked with the old one once, then read anew.
        assert strict.rules[0].hits <= 2


async def test_a_token_that_stays_expired_is_not_tried_for_ever(
    plane: testing.Plane, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("expired")
    with proxies.Proxy(plane.config(), identity=False) as strict:
        async with kube.Client(strict.config(token_file=str(file))) as client:
            with pytest.raises(errors.Unauthorized):
                await client.list(resources.NAMESPACES)
        assert len(strict.requests) == 2


def served(tmp_path: Path, issued: authority.Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(tmp_path, context, issued)
    return context


def load(tmp_path: Path, context: ssl.SSLContext, issued: authority.Issued) -> None:
    pair = tmp_path / "pair.pem"
    pair.write_bytes(issued.cert + issued.key)
    context.load_cert_chain(pair)


async def test_the_ca_is_rotated(
    plane: testing.Plane, admin: kube.Client, namespace: str, follow: Follow, tmp_path: Path
) -> None:
    await fill(admin, namespace, 3)
    old, new = (authority.Authority.create(name, time.time()) for name in ("old", "new"))
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.cert)
    context = served(tmp_path, old.issue_server(["127.0.0.1"], time.time()))
    with proxies.Proxy(plane.config(), context=context) as front:
        oracle = await follow(source=front.config(ca_file=str(ca)))
        load(tmp_path, context, new.issue_server(["127.0.0.1"], time.time()))
        # The server is ahead of the file: refused, and nothing is sent to somebody unknown.
        front.cut()
        before = len(front.requests)
        await fill(admin, namespace, 2, prefix="b")
        await asyncio.sleep(0.5)
        assert len(front.requests) == before
        # The file has both, as it has during a rotation: no need to wait for the next look at it.
        ca.write_bytes(old.cert + new.cert)
        await oracle.agrees(admin)


class Clock:
    """The machine's clock, as somebody sets it."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset


@pytest.mark.parametrize("jump", [-86400.0, 86400.0], ids=["back", "forward"])
async def test_the_clock_jumps(
    *,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    monkeypatch: pytest.MonkeyPatch,
    jump: float,
) -> None:
    clock = Clock()
    monkeypatch.setattr("tenantry.core.clock.wall", clock)
    quick = dataclasses.replace(timing.Timing().scaled(0.2), watch_retry_first=0.05)
    lost: list[str] = []
    made = []
    for identity in ("one", "two"):
        heartbeat = leadership.Heartbeat()
        lead = leadership.Leadership(
            front.config(),
            namespace=namespace,
            name="lease",
            identity=identity,
            heartbeat=heartbeat,
            lost=lost.append,
            timing=quick,
        )
        made.append((lead, asyncio.create_task(heartbeat.run(0.02))))
        lead.start()
        if identity == "one":
            await asyncio.wait_for(lead.acquired(), 5)
    await fill(admin, namespace, 3)
    oracle = await follow()
    # Only one's clock is wrong in reality; here both jump, and the times in the lease with them.
    clock.offset = jump
    front.cut()
    await asyncio.sleep(quick.lease + 0.5)
    await fill(admin, namespace, 2, prefix="b")
    await oracle.agrees(admin)
    assert not lost
    assert made[0][0].leading
    assert not made[1][0].leading
    for lead, beating in reversed(made):
        await lead.release()
        beating.cancel()


async def test_a_plugin_whose_clock_jumped_is_asked_again(tmp_path: Path) -> None:
    """A clock set back must not make an expired credential fresh for ever: the 401 decides."""
    clock = Clock()
    script = tmp_path / "plugin"
    script.write_text(
        "#!/bin/sh\n"
        f"echo x >> {tmp_path}/runs\n"
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"t","expirationTimestamp":"2999-01-01T00:00:00Z"}}\'\n'
    )
    script.chmod(0o755)
    plugin = configs.ExecPlugin(api_version="client.authentication.k8s.io/v1", command=str(script))
    source = credentials.Source(
        configs.Config(server="https://127.0.0.1:1", exec=plugin), wall=clock
    )

    def runs() -> int:
        return (tmp_path / "runs").read_text().count("x")

    first = await source.get()
    clock.offset = -1e9
    assert await source.get() is first
    assert runs() == 1
    source.invalidate(first)
    await source.get()
    assert runs() == 2
    clock.offset = 4e10
    await source.get()
    assert runs() == 3
