"""The tenancy as processes on a real control plane, and the people who use or attack it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

import tenantry.deploy
from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import access, errors, reads
from tenantry.kube import client as kube
from tenantry.local import kubeconfig, testing

T = TypeVar("T")
Object = dict[str, Any]

LAUNCH = Path(__file__).with_name("launch.py")
SYSTEM = constants.CONTROLLER_NAMESPACE
CAPSULE_USERS = constants.USER_GROUP
#: What the tests' CapsuleConfiguration says all the time.
BOSS = "boss"
IGNORED_GROUP = "never-a-capsule-user"
PROTECTED = "^protected-"
CONFIGURATION: Object = {
    "users": [{"kind": "Group", "name": CAPSULE_USERS}],
    "administrators": [{"kind": "User", "name": BOSS}],
    "ignoreUserWithGroups": [IGNORED_GROUP],
    "protectedNamespaceRegex": PROTECTED,
    "allowServiceAccountPromotion": True,
    "forceTenantPrefix": False,
    "enableTLSReconciler": True,
}


NO_TENANT = "You do not have any Tenant assigned: please, reach out to the system administrators"
UNASSIGNABLE = (
    "Unable to assign namespace to tenant. "
    "Please use capsule.clastix.io/tenant label when creating a namespace"
)
ONLY_OWNERS = "only tenant owners can create tenant-owned namespaces"
NOT_OWNED = "can not assign the desired namespace to a non-owned Tenant"


class Process:
    """One role in a process of its own."""

    def __init__(self, role: str, argv: Sequence[str], log: Path, probes: int) -> None:
        self.role = role
        self.argv = list(argv)
        self.log = log
        self.probes = probes
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(self.argv, stdout=log, stderr=log)

    def wait_ready(self, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.running, f"{self.role} ended:\n{self.tail()}"
            if self.get("/readyz").startswith("ok"):
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.role} is not ready: {self.get('/readyz')}\n{self.tail()}")

    def get(self, path: str) -> str:
        """Read a probe or the metrics; "" when nobody answers or all is not well."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}{path}", timeout=5) as got:
                text: str = got.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""

    def leads(self) -> bool:
        return any(
            line.startswith("leader_election_master_status") and line.endswith(" 1")
            for line in self.get("/metrics").splitlines()
        )

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let it see nothing and do nothing for a while, well under the time of its Lease."""
        assert self._popen is not None
        self._popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop; return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._popen is not None
        self._popen.send_signal(number)
        return self._popen.wait(40)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


class Tenancy:
    """A control plane with the tenancy installed, and the processes of its roles."""

    def __init__(self, plane: testing.Plane, folder: Path, kinds: str) -> None:
        self.plane = plane
        self.folder = folder
        self._counter = itertools.count(1)
        self._made: list[Process] = []
        self._install(kinds)
        self.controller = self.role("controller")
        self.webhook = self.role("webhook")

    def _install(self, kinds: str) -> None:
        deploy = Path(tenantry.deploy.__path__[0])
        apply = ("apply", "--server-side", "--field-manager=install", "-f")
        definitions = (str(deploy / "crds"), *(("-f", "-") if kinds else ()))
        self.plane.run(*apply, *definitions, stdin=kinds)
        self.plane.run("wait", "--for=condition=Established", "-f", *definitions, stdin=kinds)
        self.plane.run(*apply, str(deploy / "rbac"))

    def role(self, role: str) -> Process:
        """Make a process that plays a role with a token of its own ServiceAccount."""
        probes, webhook = free_port(), free_port()
        argv = [
            sys.executable,
            str(LAUNCH),
            role,
            f"--kubeconfig={self._identity(role)}",
            f"--probes=127.0.0.1:{probes}",
            f"--webhook=127.0.0.1:{webhook}",
            f"--webhook-url=https://127.0.0.1:{webhook}",
            f"--webhook-client-ca={self.plane.platform.paths.pki / 'front-proxy-ca.crt'}",
        ]
        log = self.folder / f"{role}-{next(self._counter)}.log"
        made = Process(role, argv, log, probes)
        self._made.append(made)
        return made

    def _identity(self, role: str) -> Path:
        path = self.folder / f"{role}.yaml"
        if not path.exists():
            account = "capsule" if role == "controller" else "tenantry-webhook"
            token = self.folder / f"{role}.token"
            issued = self.plane.run("-n", SYSTEM, "create", "token", account)
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

    def start(self) -> None:
        self.controller.start()
        self.webhook.start()
        self.controller.wait_ready()
        self.webhook.wait_ready()

    def wait_for_users(self, seconds: float = 40.0) -> None:
        """Wait until Capsule users have their right to create namespaces."""
        ask = ("auth", "can-i", "patch", "namespaces", "--as=x", f"--as-group={CAPSULE_USERS}")
        deadline = time.monotonic() + seconds
        while self.plane.run(*ask, check=False).returncode:
            assert time.monotonic() < deadline, self.controller.tail()
            time.sleep(0.2)

    def close(self) -> None:
        for made in self._made:
            if made.running:
                made.kill()


def free_port() -> int:
    """Return a port at which nobody listened a moment ago."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


async def eventually(
    condition: Callable[[], Awaitable[T]], what: str = "", *, seconds: float = 15.0
) -> T:
    """Return what the condition gives once that is true; an AssertionError or a missing key in it means not yet."""
    deadline = time.monotonic() + seconds
    seen: object = None
    pause = 0.02
    while time.monotonic() < deadline:
        try:
            found = await condition()
            if found:
                return found
            seen = found
        except (AssertionError, KeyError, errors.NotFound) as problem:
            seen = problem
        # What takes long is asked about less often: each look costs the API server something.
        await asyncio.sleep(pause)
        pause = min(pause * 1.4, 0.25)
    raise AssertionError(f"not within {seconds} s: {what or condition.__name__}; last: {seen!r}")


async def refused(attempt: Awaitable[object], message: str, *, code: int = 403) -> errors.ApiError:
    """Await what must be refused with exactly this message, after the API server's own words."""
    with pytest.raises(errors.ApiError) as caught:
        await attempt
    assert caught.value.message.endswith(message), caught.value.message
    assert caught.value.code == code
    return caught.value


async def refused_as_nobody(attempt: Awaitable[object], *, named: bool = False) -> None:
    """Await the refusal of somebody who owned a tenant a moment ago.

    Mutation only proposes, so it may choose by a memory that has not heard of it. Validation reads,
    and then refuses what was chosen: the tenant is not the requester's. Where memory has heard,
    there is nothing to choose.

    :param named: the request itself names the tenant, so both say the same
    """
    with pytest.raises(errors.ApiError) as caught:
        await attempt
    found = (caught.value.code, caught.value.message.partition(" denied the request: ")[2])
    assert found in {(400, NOT_OWNED)} | (set() if named else {(403, NO_TENANT)})


@dataclasses.dataclass
class World:
    """The people and names of one test: every name begins with its prefix."""

    admin: kube.Client
    prefix: str
    tenancy: Tenancy

    def name(self, rest: str) -> str:
        return f"{self.prefix}-{rest}"

    def user(self, name: str = "alice", *groups: str) -> kube.Client:
        """Act as a Capsule user, alice by default; her name is this test's own."""
        return self.admin.as_user(self.name(name), [CAPSULE_USERS, *groups])

    def stranger(self, name: str, *groups: str) -> kube.Client:
        """Act as somebody whom the configuration does not know."""
        return self.admin.as_user(self.name(name), list(groups))

    def boss(self) -> kube.Client:
        """Act as an administrator, who may do everything."""
        return self.admin.as_user(BOSS, ["system:masters"])

    def account(self, namespace: str, name: str = "default") -> kube.Client:
        """Act as a ServiceAccount."""
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        return self.admin.as_user(f"system:serviceaccount:{namespace}:{name}", groups)

    def owner(self, name: str = "alice", **more: Any) -> Object:
        return {"kind": "User", "name": self.name(name), **more}

    async def tenant(self, name: str = "oil", *, owner: str = "alice", **spec: Any) -> Object:
        """Create a tenant; its owner is a user of this test unless `owners` are given."""
        body: Object = {
            "metadata": {"name": self.name(name)},
            "spec": {"owners": [self.owner(owner)], **spec},
        }
        return await self.admin.create(capsule.TENANTS, body)

    async def change(self, tenant: Object, **spec: Any) -> Object:
        """Change fields of a tenant's specification."""
        name = tenant["metadata"]["name"]
        return await self.admin.patch(capsule.TENANTS, name, kind="merge", body={"spec": spec})

    async def namespace(
        self,
        name: str = "prod",
        *,
        by: kube.Client | None = None,
        tenant: str | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        references: Sequence[Object] = (),
        dry_run: bool = False,
    ) -> Object:
        """Create a namespace, as alice unless somebody else does."""
        wanted = dict(labels or {})
        if tenant is not None:
            wanted[constants.TENANT_LABEL] = self.name(tenant)
        metadata: Object = {"name": self.name(name)}
        if wanted:
            metadata["labels"] = wanted
        if annotations:
            metadata["annotations"] = annotations
        if references:
            metadata["ownerReferences"] = list(references)
        client = by or self.user()
        return await client.create(resources.NAMESPACES, {"metadata": metadata}, dry_run=dry_run)

    async def stored(self, name: str = "prod") -> Object:
        return await self.admin.get(resources.NAMESPACES, self.name(name))

    async def status(self, name: str = "oil") -> Object:
        found: Object = (await self.admin.get(capsule.TENANTS, self.name(name))).get("status") or {}
        return found

    @staticmethod
    def condition(status: Object, kind: str) -> Object:
        """Return one of the conditions of a status."""
        by_type = {found["type"]: found for found in status.get("conditions") or ()}
        assert kind in by_type
        found: Object = by_type[kind]
        return found

    async def bindings(self, name: str = "prod") -> dict[str, Object]:
        """Return a namespace's managed RoleBindings by name."""
        selector = f"{constants.MANAGED_BY_LABEL}={constants.MANAGED_BY_CONTROLLER}"
        listed = await self.admin.list(
            resources.ROLE_BINDINGS, self.name(name), label_selector=selector
        )
        found = [reads.to_dict(bytes(item)) for item in listed.items]
        return {binding["metadata"]["name"]: binding for binding in found}

    async def granted(self, name: str = "prod") -> set[tuple[str, str]]:
        """Return (role, subject) of a namespace's managed RoleBindings, the administrator's aside."""
        return {
            (binding["roleRef"]["name"], subject["name"])
            for binding in (await self.bindings(name)).values()
            for subject in binding.get("subjects") or ()
            if subject["name"] != BOSS
        }

    async def bound(self, name: str = "prod", *, by: str = "alice") -> None:
        """Wait until a user's two roles reached a namespace."""
        wanted = {(role, self.name(by)) for role in constants.OWNER_ROLES}

        async def there() -> bool:
            return wanted <= await self.granted(name)

        await eventually(there, f"{by} has her roles in {name}")
        question = access.Question(
            verb="create", resource=resources.CONFIG_MAPS, namespace=self.name(name)
        )

        async def known() -> bool:
            return (await access.can(self.admin, question, user=self.name(by))).allowed

        # Who may do what, the API server knows from a cache of its own.
        await eventually(known, f"the API server knows {by}'s roles in {name}")

    async def grant(
        self, user: str, *verbs: str, what: Sequence[str] = ("namespaces",), group: str = ""
    ) -> None:
        """Let a user do something in the whole cluster, by RBAC of the cluster's own."""
        name = f"{self.prefix}-{user.replace(':', '.')}-{len(verbs)}-{'.'.join(what)}"
        name = name.replace("/", ".")
        rule = {"apiGroups": [group], "resources": list(what), "verbs": list(verbs)}
        role: Object = {"metadata": {"name": name}, "rules": [rule]}
        rbac = "rbac.authorization.k8s.io"
        binding: Object = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }
        for kind, obj in (
            (resources.CLUSTER_ROLES, role), (resources.CLUSTER_ROLE_BINDINGS, binding),
        ):  # fmt: skip
            with contextlib.suppress(errors.AlreadyExists):
                await self.admin.create(kind, obj)

        resource, _, subresource = what[-1].partition("/")
        asked = {
            "verb": verbs[-1], "group": group, "resource": resource, "subresource": subresource,
        }  # fmt: skip
        review: Object = {"spec": {"user": user, "resourceAttributes": asked}}

        async def may() -> bool:
            # The authorizer reads from a cache of its own.
            answer = await self.admin.create(
                resources.SUBJECT_ACCESS_REVIEWS, review, effect="none"
            )
            return bool(answer["status"]["allowed"])

        await eventually(may, f"{user} may {verbs[-1]} {what[-1]}")

    async def labelled(self, client: kube.Client, name: str, **labels: str | None) -> Object:
        """Set or (None) remove labels of a namespace."""
        return await client.patch(
            resources.NAMESPACES,
            self.name(name),
            kind="merge",
            body={"metadata": {"labels": labels}},
        )

    @contextlib.asynccontextmanager
    async def configured(self, **spec: Any) -> AsyncIterator[None]:
        """Change the CapsuleConfiguration for a while; nobody else runs meanwhile."""
        await self._configure(spec)
        try:
            yield
        finally:
            await self._configure({key: CONFIGURATION.get(key) for key in spec})
            if spec.keys() & {"users", "userNames", "userGroups", "rbac"}:
                # The next test's people may create namespaces from the first moment on.
                await eventually(self.users_may_create)

    async def users_may_create(self) -> bool:
        """Tell whether RBAC lets Capsule users create namespaces, as it follows the configuration."""
        asked = {"verb": "create", "resource": "namespaces"}
        spec = {"user": "x", "groups": [CAPSULE_USERS], "resourceAttributes": asked}
        answer = await self.admin.create(
            resources.SUBJECT_ACCESS_REVIEWS, {"spec": spec}, effect="none"
        )
        return bool(answer["status"]["allowed"])

    async def _configure(self, spec: Object) -> None:
        await self.admin.patch(
            capsule.CONFIGURATIONS,
            constants.CONFIGURATION_NAME,
            kind="merge",
            body={"spec": spec},
        )


def reference(tenant: Object, *, version: str = constants.VERSION, **changes: Any) -> Object:
    """Return the ownerReference that ties a namespace to a tenant."""
    return {
        "apiVersion": f"{constants.GROUP}/{version}",
        "kind": "Tenant",
        "name": tenant["metadata"]["name"],
        "uid": tenant["metadata"]["uid"],
        **changes,
    }


def tenant_of(namespace: Object) -> str | None:
    """Return the tenant that label and the only Tenant reference agree on; None for none at all."""
    metadata = namespace["metadata"]
    label: str | None = (metadata.get("labels") or {}).get(constants.TENANT_LABEL)
    names = [
        found["name"]
        for found in metadata.get("ownerReferences") or ()
        if found["kind"] == "Tenant"
    ]
    assert names == ([] if label is None else [label])
    return label


def started(planes: testing.Planes, folder: Path, kinds: str = "") -> Iterator[Tenancy]:
    """Start a plane with the tenancy on it; stop its processes afterwards.

    :param kinds: manifests of what the cluster has beside Kubernetes' own kinds
    """
    tenancy = Tenancy(planes.start(), folder, kinds)
    try:
        tenancy.start()
        yield tenancy
    finally:
        tenancy.close()
