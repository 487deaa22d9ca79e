"""A process with the arguments of a Capsule Deployment (specs/capsule 6.1, 6.3)."""

from __future__ import annotations

import dataclasses
import ssl
import sys
import urllib.request
from pathlib import Path

import pytest

from tenantry.api import resources
from tenantry.apps import hooks
from tenantry.core import clock
from tenantry.kube import errors
from tenantry.pki import authority

from . import harness
from .harness import World, eventually

pytestmark = pytest.mark.plane


@dataclasses.dataclass
class Certificates:
    """A folder as cert-manager's Secret is mounted."""

    folder: Path
    signer: authority.Authority

    def write(self) -> None:
        leaf = self.signer.issue_server(["127.0.0.1"], clock.wall(), days=2)
        (self.folder / "tls.crt").write_bytes(leaf.cert)
        (self.folder / "tls.key").write_bytes(leaf.key)
        (self.folder / "ca.crt").write_bytes(self.signer.cert)


def get(url: str, context: ssl.SSLContext | None = None) -> str:
    with urllib.request.urlopen(url, timeout=5, context=context) as answer:
        text: str = answer.read().decode()
        return text


async def test_an_existing_deployment_serves_with_its_own_certificate(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Certificates(tmp_path, authority.Authority.create("theirs", clock.wall()))
    files.write()
    webhook, metrics, health, probes = (harness.free_port() for _ in range(4))
    argv = [
        *(sys.executable, str(harness.LAUNCH), "run"),
        "--enable-leader-election",
        "--workers=1",
        "--cache-sync-timeout=4m",
        "--client-connection-qps=20",
        "--client-connection-burst=30",
        f"--metrics-addr=:{metrics}",
        "--metrics-secure=true",
        f"--metrics-cert-path={tmp_path}",
        f"--webhook-port={webhook}",
        f"--webhook-cert-path={tmp_path}",
        "--enable-http2=false",
        "--enable-pprof=false",
        "--zap-log-level=4",
        "--configuration-name=default",
        # What only this machine needs.
        "--drain=1",
        f"--health-addr=127.0.0.1:{health}",
        f"--probes=127.0.0.1:{probes}",
        f"--webhook-url=https://127.0.0.1:{webhook}",
        f"--kubeconfig={world.tenancy.plane.admin}",
    ]
    before = await world.admin.get(resources.VALIDATING_WEBHOOKS, hooks.NAME)
    monkeypatch.setenv("NAMESPACE", harness.SYSTEM)
    monkeypatch.setenv("SERVICE_ACCOUNT", "capsule")
    process = harness.Process("run", argv, tmp_path / "log", health)
    world.tenancy.webhook.kill()
    try:
        process.start()
        process.wait_ready()

        async def asked() -> bool:
            found = await world.admin.get(resources.VALIDATING_WEBHOOKS, hooks.NAME)
            client = found["webhooks"][0]["clientConfig"]
            return bool(client["url"].startswith(f"https://127.0.0.1:{webhook}/"))

        await eventually(asked)
        await world.tenant()
        assert harness.tenant_of(await world.namespace()) == world.name("oil")
        # Nobody's Secret is written, and the authority beside the certificate is believed.
        context = ssl.create_default_context(cadata=files.signer.cert.decode())
        text = get(f"https://127.0.0.1:{metrics}/metrics", context)
        assert "controller_runtime_webhook_requests_total" in text
        assert (
            before["webhooks"][0]["clientConfig"]["caBundle"]
            != (await world.admin.get(resources.VALIDATING_WEBHOOKS, hooks.NAME))["webhooks"][0][
                "clientConfig"
            ]["caBundle"]
        )
    finally:
        ended = process.stop()
        world.tenancy.webhook.start()
        world.tenancy.webhook.wait_ready()
    assert ended == 0, process.tail()

    async def back() -> bool:
        try:
            await world.namespace("staging", dry_run=True)
        except errors.KubeError:
            return False
        return True

    await eventually(back)
