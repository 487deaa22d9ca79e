"""A platform with a real scheduler and simulated nodes, and what tests do on it.

Requests go over one connection per API server, and people are impersonated: a process and a
certificate per request would cost more than all that is tested here.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import time
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any
from urllib import parse

from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.api.tenantry import resources as tenantry
from tenantry.cli import main
from tenantry.kube import config as configs
from tenantry.kube import credentials, tls
from tenantry.local import testing

Object = dict[str, Any]

GROUP = "projectcapsule.dev"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
KINDS = {
    one.kind: one
    for one in (
        resources.NAMESPACES, resources.NODES, resources.PODS, resources.SERVICE_ACCOUNTS,
        resources.REPLICATION_CONTROLLERS, resources.CORE_EVENTS, resources.DEPLOYMENTS,
        resources.REPLICA_SETS, resources.STATEFUL_SETS, resources.DAEMON_SETS, resources.JOBS,
        resources.CRON_JOBS, resources.ROLES, resources.ROLE_BINDINGS, resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS, resources.PRIORITY_CLASSES, resources.ENDPOINT_SLICES,
        resources.POD_DISRUPTION_BUDGETS, resources.RESOURCE_CLAIMS, resources.DEVICE_CLASSES,
        resources.SELF_SUBJECT_ACCESS_REVIEWS, capsule.TENANTS, tenantry.NODE_POOLS,
    )
}  # fmt: skip
_PATCHES = {
    "merge": "merge-patch+json",
    "strategic": "strategic-merge-patch+json",
    "json": "json-patch+json",
    "apply": "apply-patch+yaml",
}
POOL = tenantry.NODE_POOLS.kind
#: Seconds.
IDLE = 30.0
_RBAC = "rbac.authorization.k8s.io/v1"


class Refused(AssertionError):
    """Raised by the API server's refusal; the code, and its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """One API server of a platform, as its administrator or somebody impersonated."""

    def __init__(self, plane: testing.Plane, server: int = 0) -> None:
        config = configs.load(plane.admin)
        credential = credentials.Credential(
            ca=config.ca_data, cert=config.cert_data, key=config.key_data
        )
        self._used = time.monotonic()
        where = parse.urlsplit(plane.plan.servers[server])
        self._connection = http.client.HTTPSConnection(
            where.hostname or "",
            where.port,
            timeout=40,
            context=tls.context(config, credential),
        )

    def close(self) -> None:
        self._connection.close()

    def call(
        self, method: str, path: str, body: Any = None, *, user: str = "", kind: str = "json"
    ) -> Object:
        """Return the answer, or raise Refused."""
        headers = {"Content-Type": f"application/{kind}", "Accept": "application/json"}
        if user:
            headers["Impersonate-User"] = user
            if not user.startswith("system:"):
                headers["Impersonate-Group"] = GROUP
        data = None if body is None else json.dumps(body)
        if time.monotonic() - self._used > IDLE:
            # The server ends connections that idle for longer.
            self._connection.close()
        self._used = time.monotonic()
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        found: Object = json.loads(text) if text.startswith(b"{") else {"text": text.decode()}
        if answer.status >= 300:
            raise Refused(answer.status, found.get("message", str(found)))
        return found


def metadata(name: str, namespace: str = "", **more: Any) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, **more}


def pod(name: str, namespace: str, **spec: Any) -> Object:
    more = spec.pop("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, namespace, **more),
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/none"}], **spec},
    }


def template(**spec: Any) -> Object:
    made = pod("", "", **spec)
    labels = {"app": "a", **made["metadata"].get("labels", {})}
    return {"metadata": {**made["metadata"], "labels": labels}, "spec": made["spec"]}


def workload(kind: str, name: str, namespace: str, **spec: Any) -> Object:
    """Return what makes one pod of a template: every kind that Kubernetes has of it."""
    made, chosen = template(**spec), {"matchLabels": {"app": "a"}}
    once = {"template": {**made, "spec": {"restartPolicy": "Never", **made["spec"]}}}
    specs: dict[str, Object] = {
        "ReplicationController": {"selector": {"app": "a"}, "template": made},
        "StatefulSet": {"selector": chosen, "serviceName": "a", "template": made},
        "Job": {**once, "backoffLimit": 0},
        "CronJob": {"schedule": "* * * * *", "jobTemplate": {"spec": once}},
    }
    return {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": metadata(name, namespace),
        "spec": specs.get(kind, {"selector": chosen, "template": made}),
    }


class Stage:
    """The platform, and a share of its nodes for one test."""

    def __init__(self, plane: testing.Plane, servers: list[Api], prefix: str) -> None:
        self.plane = plane
        self.servers = servers
        self.prefix = prefix
        self.nodes: list[str] = []

    def name(self, rest: str) -> str:
        return f"{self.prefix}-{rest}"

    def kubectl(self, *args: str) -> str:
        """Type something as the administrator."""
        return self.plane.run(*args).stdout

    def tenantry(self, *args: str) -> tuple[int, str, str]:
        """Type `tenantry nodes ...`; return exit code, output and errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.run(["nodes", *args, "--kubeconfig", str(self.plane.admin)])
        return code, out.getvalue(), err.getvalue()

    def call(
        self,
        method: str,
        kind: str,
        name: str = "",
        namespace: str = "",
        body: Any = None,
        *,
        sub: str = "",
        user: str = "",
        server: int = 0,
        patch: str = "",
        query: str = "",
    ) -> Object:
        path = KINDS[kind].path(namespace, name, sub) + query
        return self.servers[server].call(
            method, path, body, user=user, kind=_PATCHES.get(patch, "json")
        )

    def get(self, kind: str, name: str = "", namespace: str = "") -> Object:
        return self.call("GET", kind, name, namespace)

    def items(self, kind: str, namespace: str = "") -> list[Object]:
        found: list[Object] = self.get(kind, "", namespace)["items"]
        return found

    def create(self, body: Object, *, user: str = "", server: int = 0, dry: bool = False) -> Object:
        query = "?dryRun=All" if dry else ""
        namespace = body["metadata"].get("namespace", "")
        return self.call(
            "POST", body["kind"], "", namespace, body, user=user, server=server, query=query
        )

    def apply(self, body: Object, *, user: str = "", sub: str = "") -> Object:
        head = body["metadata"]
        return self.call(
            "PATCH", body["kind"], head["name"], head.get("namespace", ""), body, user=user,
            patch="apply", query="?fieldManager=somebody&force=true", sub=sub,
        )  # fmt: skip

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str,
        change: Any,
        *,
        user: str = "",
        sub: str = "",
        how: str = "merge",
    ) -> Object:
        return self.call("PATCH", kind, name, namespace, change, user=user, sub=sub, patch=how)

    def delete(self, kind: str, name: str, namespace: str = "", *, user: str = "") -> None:
        self.call("DELETE", kind, name, namespace, user=user)

    def refused(self, work: Callable[..., Any], *args: Any, **how: Any) -> str:
        """Return the message of what must be refused."""
        try:
            done = work(*args, **how)
        except Refused as problem:
            return str(problem)
        raise AssertionError(f"it was let through: {done}")

    def attempted(self, work: Callable[..., Any], *args: Any, **how: Any) -> int:
        """Return the code with which something was let through (200) or refused."""
        try:
            work(*args, **how)
        except Refused as problem:
            return problem.code
        return 200

    def node(self, name: str) -> Object:
        return self.get("Node", name)

    def taints(self, name: str) -> list[str]:
        return [
            f"{one['key']}={one.get('value', '')}:{one['effect']}"
            for one in self.node(name)["spec"].get("taints") or ()
        ]

    def pool(self, rest: str = "pool", *, tenant: str = "team", **spec: Any) -> str:
        """Create or change a pool; by default of the first two nodes of this test."""
        name = self.name(rest)
        if "nodes" not in spec and "selector" not in spec:
            spec["nodes"] = self.nodes[:2]
        self.apply(
            {
                "apiVersion": tenantry.NODE_POOLS.api_version,
                "kind": POOL,
                "metadata": {"name": name},
                "spec": {"tenant": self.name(tenant), **spec},
            }
        )
        return name

    def dedicated(self, rest: str = "pool", **spec: Any) -> str:
        """Create a pool, and wait until all its nodes are the tenant's."""
        name = self.pool(rest, **spec)
        self.eventually(lambda: self.states(name) == {"dedicated"}, f"{name} dedicated")
        return name

    def status(self, name: str) -> Object:
        found: Object = self.get(POOL, name).get("status") or {}
        return found

    def entries(self, name: str) -> dict[str, Object]:
        return {one["name"]: one for one in self.status(name).get("nodes") or ()}

    def states(self, name: str) -> set[str]:
        return {one["state"] for one in self.entries(name).values()}

    def condition(self, name: str, kind: str) -> Object:
        found = {one["type"]: one for one in self.status(name).get("conditions") or ()}
        one: Object = found[kind]
        return one

    def tenant(self, rest: str = "team", **spec: Any) -> str:
        """Create a tenant with a namespace of the same name; its owner is called like it."""
        name = self.name(rest)
        self.create(
            {
                "apiVersion": capsule.TENANTS.api_version,
                "kind": "Tenant",
                "metadata": {"name": name},
                "spec": {"owners": [{"kind": "User", "name": name}], **spec},
            }
        )
        self.namespace(name, tenant=name)
        return name

    def namespace(self, name: str, *, tenant: str = "", **annotations: str) -> str:
        labels = {"capsule.clastix.io/tenant": tenant} if tenant else {}
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
        }
        # The right to create namespaces comes with the controller's first look at a tenant.
        self.eventually(lambda: self.create(body, user=tenant), "the namespace")
        self.eventually(lambda: self.get("ServiceAccount", "default", name), "its account")
        if tenant:
            self.may(tenant, "create", "pods", name)
        return name

    def may(self, user: str, verb: str, resource: str, namespace: str = "") -> None:
        """Wait until a user has a right."""
        plural, _, sub = resource.partition("/")
        asked = {"verb": verb, "resource": plural, "subresource": sub, "namespace": namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": asked},
        }
        self.eventually(
            lambda: self.create(body, user=user)["status"]["allowed"], f"{user} may {verb}"
        )

    def allow(
        self, user: str, verbs: Iterable[str], *names: str, namespace: str = "", group: str = ""
    ) -> None:
        """Give a user rights beyond a tenant's, in one namespace or (without one) everywhere."""
        scope = "" if namespace else "Cluster"
        role = f"{self.prefix}-{names[0].replace('/', '-')}"
        rules = [{"apiGroups": [group], "resources": list(names), "verbs": list(verbs)}]
        head = {"apiVersion": _RBAC, "metadata": metadata(role, namespace)}
        self.create({**head, "kind": f"{scope}Role", "rules": rules})
        self.create(
            {
                **head,
                "kind": f"{scope}RoleBinding",
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": f"{scope}Role",
                    "name": role,
                },
                "subjects": [
                    {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
                ],
            }
        )
        if not group:
            self.may(user, next(iter(verbs)), names[0], namespace)

    def on(self, name: str, namespace: str) -> str:
        """Return where a pod is; "" while it is nowhere."""
        found: str = self.get("Pod", name, namespace)["spec"].get("nodeName", "")
        return found

    def reached(self, namespace: str) -> list[str]:
        """Return the nodes with pods of a namespace that are ready."""
        return sorted(
            one["spec"]["nodeName"]
            for one in self.items("Pod", namespace)
            if any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in one["status"].get("conditions") or ()
            )
        )

    def metrics(self) -> dict[str, float]:
        """Return the controller's metrics about pools of this test."""
        port = self.plane.plan.ports["controller.health"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as got:
            lines = got.read().decode().splitlines()
        wanted = f'pool="{self.prefix}-'
        found = (line.rpartition(" ") for line in lines if wanted in line)
        return {name: float(value) for name, _, value in found}

    def eventually(self, condition: Callable[[], Any], what: str, *, seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        seen: object = None
        while time.monotonic() < deadline:
            try:
                seen = condition()
                if seen:
                    return seen
            except (KeyError, AssertionError) as problem:
                seen = problem
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds} s: {what}; last: {seen!r}")
