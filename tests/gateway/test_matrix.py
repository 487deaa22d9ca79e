"""Six callers over every kind that is narrowed: reads, tables, watches and writes, with kubectl."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import server
from pathlib import Path
from typing import Any

import pytest

from tenantry.pki import authority

from . import harness
from .harness import USERS, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

OWNER = "system:serviceaccount:sea-1:captain"
EVERY = ("Nodes", "StorageClasses", "IngressClasses", "PriorityClasses", "RuntimeClasses",
         "PersistentVolumes")  # fmt: skip


def thing(
    kind: str, version: str, name: str, labels: dict[str, str], **more: Any
) -> harness.Object:
    metadata = {"name": name, "labels": {"matrix": "yes", **labels}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def of(tenant: str) -> list[harness.Object]:
    """Return one object of each cluster-wide kind that belongs to a tenant."""
    mine = {"for": tenant}
    labelled = {"capsule.clastix.io/tenant": tenant}
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/x"},
    }  # fmt: skip
    return [
        thing("Node", "v1", f"m-{tenant}", mine),
        thing("StorageClass", "storage.k8s.io/v1", f"m-{tenant}", mine, provisioner="x.com/none"),
        thing("IngressClass", "networking.k8s.io/v1", f"m-{tenant}", mine,
              spec={"controller": "x.com/none"}),
        thing("PriorityClass", "scheduling.k8s.io/v1", f"m-{tenant}", mine, value=5),
        thing("RuntimeClass", "node.k8s.io/v1", f"m-{tenant}", mine, handler="none"),
        thing("PersistentVolume", "v1", f"m-{tenant}", labelled, spec=spec),
    ]  # fmt: skip


def tenant(name: str, *owners: harness.Object) -> harness.Object:
    mine = {"matchLabels": {"for": name}}
    return harness.tenant(
        name, *owners, nodeSelector={"for": name}, storageClasses=mine,
        ingressOptions={"allowedClasses": {"allowed": [f"m-{name}"]}},
        priorityClasses={"allowedRegex": f"^m-{name}$"}, runtimeClasses=mine,
    )  # fmt: skip


class Metrics:
    """An aggregated API server that serves metrics of nodes and nothing else."""

    def __init__(self, folder: Path) -> None:
        made = authority.Authority.create("metrics", time.time()).issue_server(
            ["127.0.0.1"], time.time()
        )
        (folder / "m.crt").write_bytes(made.cert)
        (folder / "m.key").write_bytes(made.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "m.crt", folder / "m.key")

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, found = answer(self.path)
                body = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


METRICS = "/apis/metrics.k8s.io/v1beta1"


def answer(target: str) -> tuple[int, harness.Object]:
    path, _, query = target.partition("?")
    items: list[harness.Object] = [
        {
            "kind": "NodeMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": f"m-{name}", "labels": {"for": name}},
            "usage": {"cpu": "1", "memory": "1Gi"},
        }
        for name in ("sea", "sky")
    ]
    if path == METRICS:
        resource = {
            "name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics",
            "verbs": ["get", "list"],
        }  # fmt: skip
        version = "metrics.k8s.io/v1beta1"
        return 200, {"kind": "APIResourceList", "groupVersion": version, "resources": [resource]}
    if path == f"{METRICS}/nodes":
        shown = [
            item
            for item in items
            if ("sky" not in query and "sea" not in query) or _for(item) in query
        ]
        return 200, {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
                     "metadata": {}, "items": shown}  # fmt: skip
    for item in items:
        if path == f"{METRICS}/nodes/{item['metadata']['name']}":
            return 200, item
    return 404, {"kind": "Status", "code": 404}


def _for(item: Any) -> str:
    found: str = item["metadata"]["labels"]["for"]
    return found


def address() -> str:
    """Return an address of this machine that is not loopback, which endpoints may not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 1))
        except OSError:
            pytest.skip("this machine has no network")
        found: str = asking.getsockname()[0]
    return found


def behind(port: int) -> list[harness.Object]:
    """Return what has the API server ask our own for metrics."""
    ports = [{"name": "https", "port": port}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics", "namespace": "default"},
            "spec": {"ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "metrics",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "metrics"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address()], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": "metrics", "namespace": "default", "port": port},
            },
        },
    ]


@pytest.fixture(scope="module")
def people(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    metrics = Metrics(tmp_path_factory.mktemp("metrics"))
    aggregated = behind(metrics.port)
    objects = [
        tenant("sea", harness.user("marin", *EVERY),
               harness.user(OWNER, *EVERY, kind="ServiceAccount")),
        tenant("sky", harness.user("sky-owners", *EVERY, kind="Group")),
        *of("sea"), *of("sky"), *aggregated,
    ]  # fmt: skip
    text = "\n---\n".join(map(json.dumps, objects))
    world.plane.run("apply", "--server-side", "-f", "-", stdin=text)
    marin, bird = world.kubeconfig("marin", USERS), world.kubeconfig("bird", USERS, "sky-owners")
    for owner, path in (("sea", marin), ("sky", bird)):
        labels = {"capsule.clastix.io/tenant": owner}
        body = {"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": f"{owner}-1", "labels": labels}}  # fmt: skip
        harness.eventually(
            lambda path=path, body=body: (  # type: ignore[misc]
                world.run(path, "create", "-f", "-", stdin=json.dumps(body), check=False).returncode
                == 0
            )
        )
        make = ("create", "configmap", f"{owner}-notes", "-n", f"{owner}-1")
        harness.eventually(
            lambda path=path, make=make: world.run(path, *make, check=False).returncode == 0  # type: ignore[misc]
        )
    world.plane.run("create", "serviceaccount", "captain", "-n", "sea-1")
    token = world.plane.run("create", "token", "captain", "-n", "sea-1").stdout.strip()
    found = {
        "admin": world.kubeconfig("admin", "system:masters"),
        "marin": marin,
        "bird": bird,
        "captain": world.with_token(token, "captain"),
        "plain": world.kubeconfig("plain", USERS),
        "stranger": world.kubeconfig("stranger"),
    }
    # Discovery is looked at again every ten seconds.
    metric = ("get", "nodes.metrics.k8s.io", "-o", "name")
    harness.eventually(lambda: "/m-sea" in world.run(marin, *metric, check=False).stdout, 40)
    yield found
    world.plane.run("delete", "apiservice", "v1beta1.metrics.k8s.io")
    world.plane.run("delete", "service,endpointslice", "metrics", "-n", "default")
    for owner in ("sea", "sky"):
        world.plane.run("delete", "namespace", f"{owner}-1", "--timeout=60s")
    world.plane.run("delete", "tenants", "sea", "sky", "--timeout=60s")
    bodies: list[Any] = [*of("sea"), *of("sky")]
    for body in bodies:
        kind, name = str(body["kind"]).lower(), body["metadata"]["name"]
        world.plane.run("delete", kind, name, "--wait=false", "--force", "--grace-period=0")
    metrics.close()


KINDS = ("nodes", "storageclasses", "ingressclasses", "priorityclasses", "runtimeclasses",
         "persistentvolumes", "nodes.metrics.k8s.io")  # fmt: skip
#: Who -> whose things they are shown; None = the API server's refusal.
SHOWN = {
    "admin": ("sea", "sky"),
    "marin": ("sea",),
    "captain": ("sea",),
    "bird": ("sky",),
    "plain": None,
    "stranger": None,
}


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize("kind", KINDS)
def test_cluster_wide_kinds(world: World, people: dict[str, Path], who: str, kind: str) -> None:
    shown = SHOWN[who]
    done = world.run(people[who], "get", kind, "-o", "name", check=False)
    if shown is None:
        assert "(Forbidden)" in done.stderr
        assert done.stdout == ""
    else:
        listed = [line.partition("/")[2] for line in done.stdout.splitlines()]
        assert [name for name in listed if name.startswith("m-")] == [f"m-{t}" for t in shown]
        if who != "admin":
            assert len(listed) == len(shown)
    for name in ("sea", "sky"):
        one = world.run(people[who], "get", kind, f"m-{name}", "-o", "name", check=False)
        if shown is None:
            assert "(Forbidden)" in one.stderr
        elif name in shown:
            assert one.stdout.strip().endswith(f"/m-{name}")
        else:
            assert "(NotFound)" in one.stderr


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_cluster_wide_kinds_are_written_by_administrators_only(
    world: World, people: dict[str, Path], who: str, kind: str
) -> None:
    """Defects D3 and D4: writes went on as the proxy, by way of a filter or of no rule at all."""
    for args in (
        ("label", kind, "m-sea", "stolen=yes", "--dry-run=server"),
        ("delete", kind, "m-sea", "--dry-run=server"),
        ("delete", kind, "--all", "--dry-run=server"),
    ):
        if who == "admin" and "--all" in args:
            continue
        done = world.run(people[who], *args, check=False)
        if who == "admin":
            assert done.returncode == 0, done.stderr
        else:
            # To label, kubectl asks for the object first, which others do not see.
            assert done.returncode != 0
            assert "(Forbidden)" in done.stderr or "(NotFound)" in done.stderr
            assert "(server dry run)" not in done.stdout
    made = {"Node": "nodes", "StorageClass": "storageclasses", "IngressClass": "ingressclasses",
            "PriorityClass": "priorityclasses", "RuntimeClass": "runtimeclasses",
            "PersistentVolume": "persistentvolumes"}  # fmt: skip
    body = next(one for one in of("new") if made[one["kind"]] == kind)
    create = ("create", "--dry-run=server", "--validate=false", "-f", "-")
    done = world.run(people[who], *create, stdin=json.dumps(body), check=False)
    assert (done.returncode == 0) is (who == "admin"), done.stderr


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize(
    "what", ["namespaces", "tenants", "configmaps", "nodes", "priorityclasses"]
)
def test_a_watch_begins_with_what_a_list_shows(
    world: World, people: dict[str, Path], who: str, what: str
) -> None:
    """Over all namespaces, and with the rows of a Table as well."""
    everywhere = ["-A"] if what == "configmaps" else []
    listed = world.run(people[who], "get", what, *everywhere, "-o", "name", check=False)
    watched = world.run(
        people[who], "get", what, *everywhere, "-o", "name", "--watch", "--request-timeout=2s",
        check=False,
    )  # fmt: skip
    if listed.returncode:
        assert "(Forbidden)" in watched.stderr
        assert watched.stdout == ""
    else:
        assert set(watched.stdout.splitlines()) >= set(listed.stdout.splitlines())
        assert SHOWN[who] is not None or listed.stdout == ""
        if who != "admin":
            assert set(watched.stdout.splitlines()) == set(listed.stdout.splitlines())


PATHS = (
    "/api", "/apis", "/version", "/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods",
    "/api/v1/namespaces/sea-1", "/api/v1/namespaces/sea-1/configmaps",
    "/apis/capsule.clastix.io/v1beta2/tenants", f"{METRICS}/nodes", "/openapi/v2", "/metrics",
    "/api/v1/namespaces?watch=true", "/api/v1/namespaces/sea-1/pods/p/log",
)  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_the_anonymous_get_nowhere(
    world: World, people: dict[str, Path], path: str, method: str
) -> None:
    assert people
    context = ssl.create_default_context(cafile=str(world.plane.platform.paths.pki / "ca.crt"))
    body = None if method == "GET" else b"{}"
    asked = urllib.request.Request(f"{world.server}{path}", method=method, data=body)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=20, context=context)
    with caught.value as error:
        assert error.code == 401
        found = json.loads(error.read())
    assert (found["kind"], found["reason"]) == ("Status", "Unauthorized")


@pytest.mark.parametrize("who", ["marin", "bird", "captain", "plain", "stranger"])
def test_namespaced_writes_are_the_callers_own(
    world: World, people: dict[str, Path], who: str
) -> None:
    allowed = {"marin": "sea-1", "captain": "sea-1", "bird": "sky-1"}.get(who)
    for namespace in ("sea-1", "sky-1", "default"):
        make = ("create", "configmap", f"by-{who}", "-n", namespace, "--dry-run=server")
        done = world.run(people[who], *make, check=False)
        assert (done.returncode == 0) is (namespace == allowed), done.stderr


def test_metrics_of_nodes_are_shown_by_top(world: World, people: dict[str, Path]) -> None:
    done = subprocess.run(
        [str(world.plane.kubectl), f"--kubeconfig={people['marin']}", "top", "nodes", "--no-headers"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["m-sea"], done.stderr
