"""`tenantry manifests`: an existing cluster becomes one with tenants, without a loose end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import click.testing
import pytest
from tests.gateway import metrics

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import hooks, installation
from tenantry.cli import main
from tenantry.core import yamls
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors
from tenantry.local import kubeconfig, testing

from . import harness
from .harness import Object, eventually

NAMESPACE = "tenancy"


def printed(*args: str) -> list[Object]:
    result = click.testing.CliRunner().invoke(main.command, ["manifests", *args])
    assert result.exit_code == 0, result.output
    return yamls.read(result.output)


def of(objects: list[Object], kind: str) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


class Cluster:
    """A cluster to which somebody applied the manifests, and processes in place of its pods."""

    def __init__(self, plane: testing.Plane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.address = metrics.address()
        self.objects = printed("--namespace", NAMESPACE)
        self.text = yamls.write(*self.objects)
        self._running: list[harness.Process] = []

    def apply(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.plane.run("apply", "--server-side", "-f", "-", *args, stdin=self.text)

    def pod(self, role: str) -> harness.Process:
        """Start what the Deployment says, and put it behind the role's Service."""
        (container,) = of(self.objects, "Deployment")[f"tenantry-{role}"]["spec"]["template"][
            "spec"
        ]["containers"]
        probes, hook = harness.free_port(), harness.free_port()
        args = [
            # Two on one machine need ports of their own.
            text.replace(f":{installation.PROBES}", f":{probes}")
            .replace(f":{installation.WEBHOOKS}", f":{hook}")
            .replace("$(POD_IP)", self.address if "--webhook" in text else "127.0.0.1")
            for text in container["args"]
        ]
        # The API server here learns of an EndpointSlice at once.
        args += ["--drain=1", f"--kubeconfig={self._account(role)}"]
        argv = [sys.executable, str(harness.LAUNCH), *args]
        made = harness.Process(role, argv, self.folder / f"{role}-{probes}.log", probes)
        self._running.append(made)
        made.start()
        if role == "webhook":
            self._behind(f"{role}-{probes}", hook)
        made.wait_ready()
        return made

    def leave(self, one: harness.Process) -> None:
        """Take a pod away as a rollout does."""
        name = f"{one.role}-{one.probes}"
        self.plane.run("-n", NAMESPACE, "delete", "endpointslice", name)
        assert one.stop() == 0

    def rename(self, service: str, one: harness.Process) -> None:
        """Put a pod behind another Service than the manifests'."""
        found = of(self.objects, "Service")[hooks.SERVICE]
        made = {**found, "metadata": {**found["metadata"], "name": service}}
        self.plane.run("apply", "-f", "-", stdin=json.dumps(made))
        name = f"{one.role}-{one.probes}"
        label = f"kubernetes.io/service-name={service}"
        self.plane.run("-n", NAMESPACE, "label", "--overwrite", "endpointslice", name, label)

    def _account(self, role: str) -> Path:
        path = self.folder / f"{role}.yaml"
        if not path.exists():
            pod = of(self.objects, "Deployment")[f"tenantry-{role}"]["spec"]["template"]["spec"]
            account = pod["serviceAccountName"]
            token = self.folder / f"{role}.token"
            issued = self.plane.run("-n", NAMESPACE, "create", "token", account)
            token.write_text(issued.stdout.strip())
            path.write_bytes(
                kubeconfig.with_token_file(
                    platform="test",
                    server=self.plane.server,
                    ca=(self.plane.platform.paths.pki / "ca.crt").read_bytes(),
                    user=account,
                    token=token,
                )
            )
        return path

    def _behind(self, name: str, port: int) -> None:
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": hooks.SERVICE},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port}],
        }
        self.plane.run("apply", "-f", "-", stdin=json.dumps(body))

    def uninstall(self) -> click.testing.Result:
        args = ["uninstall", "--namespace", NAMESPACE, "--kubeconfig", str(self.plane.admin)]
        # In a thread: the command runs a loop of its own.
        with futures.ThreadPoolExecutor(1) as pool:
            run = click.testing.CliRunner().invoke
            return pool.submit(run, main.command, args).result()

    def close(self) -> None:
        for one in self._running:
            if one.running:
                one.kill()


TENANT: Object = {
    "apiVersion": constants.API_VERSION,
    "kind": "Tenant",
    "metadata": {"name": "oil"},
    "spec": {
        "owners": [{"kind": "User", "name": "alice"}],
        "namespaceOptions": {"quota": 2},
    },
}


@pytest.fixture
def cluster(new_plane: Callable[..., testing.Plane], tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(new_plane(), tmp_path)
    with contextlib.closing(made):
        yield made


@pytest.mark.plane
async def test_a_cluster_becomes_one_with_tenants(cluster: Cluster) -> None:
    cluster.apply()
    dry = cluster.apply("--dry-run=server").stdout.splitlines()
    assert len(dry) == len(cluster.objects)
    cluster.pod("controller")
    first = cluster.pod("webhook")

    async with kube.Client(cluster.plane.config()) as admin:
        registered = await admin.get(resources.VALIDATING_WEBHOOKS, hooks.NAME)
        assert all(hook["clientConfig"]["caBundle"] for hook in registered["webhooks"])
        # The rules are whose repository has them: their next apply conflicts with nobody.
        cluster.apply()
        cluster.plane.run("apply", "-f", "-", stdin=json.dumps(TENANT))
        alice = admin.as_user("alice", [constants.USER_GROUP])

        async def has(name: str) -> bool:
            made = await alice.create(resources.NAMESPACES, {"metadata": {"name": name}})
            found: str = made["metadata"]["labels"][constants.TENANT_LABEL]
            return found == "oil"

        async def has_one() -> bool:
            with contextlib.suppress(kube_errors.Forbidden):
                return await has("oil-one")
            return False

        await eventually(has_one, "a namespace of alice's")
        second = cluster.pod("webhook")
        cluster.leave(first)
        assert await has("oil-two"), "through the other replica of the Service"
        cluster.rename("mine", second)
        named = {"spec": {"admission": {"serviceName": "mine"}}}
        await admin.patch(
            capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME, kind="merge", body=named
        )
        # Those of the manifests lead where these say. Without them the role writes its own.
        for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
            await admin.delete(resource, hooks.NAME)

        async def asked() -> bool:
            found = await admin.get(resources.VALIDATING_WEBHOOKS, hooks.NAME)
            called = {hook["clientConfig"]["service"]["name"] for hook in found["webhooks"]}
            with contextlib.suppress(kube_errors.InternalError):  # An older certificate for now.
                await harness.refused(
                    has("oil-three"),
                    "Cannot exceed Namespace quota: please, reach out to the system administrators",
                )
                return called == {"mine"}
            return False

        await eventually(asked, "webhooks are asked through the Service that is named")

        cluster.close()
        ended = cluster.uninstall()
        assert ended.exit_code == 0, ended.output
        for resource in (resources.DEPLOYMENTS, resources.SERVICES, resources.PODS):
            assert not (await admin.list(resource, NAMESPACE)).items
        for resource in (resources.VALIDATING_WEBHOOKS, resources.MUTATING_WEBHOOKS):
            assert not (await admin.list(resource)).items
        await admin.get(resources.NAMESPACES, "oil-two")
