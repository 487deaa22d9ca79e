"""Tenantry with its gateway on a real control plane, and people with kubeconfigs of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.client
import json
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib import parse

from tenantry.cli import local
from tenantry.gateway import protobuf
from tenantry.kube import config
from tenantry.local import kubeconfig, testing

from . import sockets

JSON = "application/json"
#: What kubectl asks for when people are to read it.
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
#: What controllers ask for that hold nothing but metadata; not every kind comes so.
METADATA = (
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

USERS = "projectcapsule.dev"
ACCOUNT = "system:serviceaccount:oil-1:robot"
Object = dict[str, Any]


def tenant(name: str, *owners: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"owners": list(owners), **spec},
    }


def user(name: str, *words: str, kind: str = "User") -> Object:
    settings = [{"kind": word, "operations": ["List"]} for word in words]
    return {"kind": kind, "name": name, "proxySettings": settings}


def node(name: str, pool: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "pool": pool}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def storage_class(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
    }


OBJECTS = [
    tenant(
        "oil",
        user("alice", "Nodes", "StorageClasses"),
        user(ACCOUNT, kind="ServiceAccount"),
        nodeSelector={"pool": "oil"},
        storageClasses={"allowed": ["oil-fast"], "allowedRegex": "^shared-"},
    ),
    tenant("gas", user("alice")),
    tenant("wind", user("wind-owners", kind="Group")),
    node("n-oil", "oil"),
    node("n-wind", "wind"),
    storage_class("oil-fast"),
    storage_class("shared-1"),
    storage_class("wind-fast"),
]


@dataclasses.dataclass
class World:
    """The plane, the gateway's address and who may speak to it."""

    plane: testing.Plane
    server: str
    folder: Path

    @functools.cached_property
    def trusting(self) -> ssl.SSLContext:
        """Trusts the plane's authority, for those who have no certificate of their own."""
        return ssl.create_default_context(cafile=str(self.plane.platform.paths.pki / "ca.crt"))

    @functools.cached_property
    def robot_token(self) -> str:
        """A token of the service account that owns a tenant."""
        return self.plane.run("create", "token", "robot", "-n", "oil-1").stdout.strip()

    @functools.cached_property
    def robot(self) -> Path:
        """The kubeconfig of that service account."""
        return self.with_token(self.robot_token, "robot")

    def kubeconfig(self, name: str, *groups: str) -> Path:
        """Return a kubeconfig with a certificate that points at the gateway."""
        path = self.folder / f"{name}-{'-'.join(groups)}.yaml"
        if not path.exists():
            path.write_bytes(self.plane.platform.kubeconfig(name, groups, server=self.server))
        return path

    def with_token(self, token: str, name: str = "token") -> Path:
        """Return a kubeconfig with a bearer token that points at the gateway."""
        file = self.folder / f"{name}.token"
        file.write_text(token)
        path = self.folder / f"{name}.yaml"
        ca = (self.plane.platform.paths.pki / "ca.crt").read_bytes()
        path.write_bytes(
            kubeconfig.with_token_file(
                platform="test", server=self.server, ca=ca, user=name, token=file
            )
        )
        return path

    def direct(self, path: Path) -> Path:
        """Return a kubeconfig of the same person that points at the API server itself."""
        found = self.folder / f"direct-{path.name}"
        found.write_text(path.read_text().replace(self.server, self.plane.server))
        return found

    def audit(self) -> Audit:
        """Begin to read what the API server writes down."""
        return Audit(self.plane.platform.paths.log("audit"))

    def config(self, name: str, *groups: str) -> config.Config:
        return config.load(self.kubeconfig(name, *groups))

    def alice(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run(self.kubeconfig("alice", USERS), *args, **more)

    def run(
        self, path: Path, *args: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl at the gateway."""
        done = subprocess.run(
            [str(self.plane.kubectl), f"--kubeconfig={path}", "--cache-dir", str(self.folder / "c"),
             *args],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}:\n{done.stdout}{done.stderr}")
        return done

    def names(self, path: Path, *args: str) -> list[str]:
        """List with kubectl; return the names."""
        out = self.run(path, "get", *args, "-o", "name").stdout
        return [line.partition("/")[2] for line in out.splitlines()]


class Caller:
    """Asks what kubectl asks, with its credentials and headers, at a fiftieth of its cost."""

    def __init__(self, path: Path) -> None:
        found = config.load(path)
        self._place = parse.urlsplit(found.server)
        self._context = ssl.create_default_context(cadata=found.ca_data.decode())
        self._server = found.server
        self._headers = {"User-Agent": "kubectl/v1.35.4 (linux/amd64)"}
        if found.cert_data:
            with tempfile.TemporaryDirectory() as folder:
                cert, key = Path(folder) / "crt", Path(folder) / "key"
                cert.write_bytes(found.cert_data)
                key.write_bytes(found.key_data)
                self._context.load_cert_chain(cert, key)
        else:
            token = found.token or Path(found.token_file).read_text()
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = self.connection()

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._place.hostname or "", self._place.port, timeout=30, context=self._context
        )

    @property
    def headers(self) -> dict[str, str]:
        return dict(self._headers)

    def socket(self, target: str, **headers: str | None) -> sockets.Socket:
        """Open a WebSocket."""
        return sockets.Socket(self._server, self._context, target, **{**self._headers, **headers})

    def ask(
        self, method: str, target: str, body: Object | list[Object] | None = None, **headers: str
    ) -> tuple[int, Object]:
        """Ask, over a connection that is kept; return the code and what was answered."""
        code, found = self.raw(method, target, body, **headers)
        return code, json.loads(found)

    def raw(
        self, method: str, target: str, body: Object | list[Object] | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Ask for what may not be JSON."""
        form = "application/merge-patch+json" if method == "PATCH" else JSON
        kind = {} if body is None and method != "PATCH" else {"Content-Type": form}
        sent = {"Accept": JSON, **self._headers, **kind, **headers}
        content = None if body is None else json.dumps(body).encode()
        for last in (False, True):
            try:
                self._connection.request(method, target, content, sent)
                answer = self._connection.getresponse()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError):
                # A kept connection that was idle for long.
                self._connection.close()
                if last:
                    raise
        return answer.status, answer.read()

    def names(self, target: str, accept: str = JSON) -> list[str] | None:
        """Return the names in a list or Table, in order; None when the API server refuses."""
        sign = "&" if "?" in target else "?"
        code, found = self.ask("GET", f"{target}{sign}limit=500", Accept=accept)
        if code == 403:
            assert (found["kind"], found["reason"]) == ("Status", "Forbidden")
            return None
        assert code == 200, found
        table = accept == TABLE
        assert (found["kind"] == "Table") is table
        items = [row["object"] for row in found["rows"]] if table else found["items"]
        return [item["metadata"]["name"] for item in items]

    @contextlib.contextmanager
    def watching(self, target: str, accept: str = JSON) -> Iterator[Watch]:
        """Open a watch on a connection of its own."""
        connection = self.connection()
        try:
            connection.request("GET", target, headers={"Accept": accept, **self._headers})
            yield Watch(connection.getresponse())
        finally:
            connection.close()

    def close(self) -> None:
        self._connection.close()


class Watch:
    """Reads events, of whichever form, as pairs of type and name."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.code = answer.status
        self._answer = answer
        form = answer.headers["Content-Type"] or ""
        self._binary = form.startswith("application/vnd.kubernetes.protobuf")
        self._held: list[tuple[str, str]] = []

    def next(self) -> tuple[str, str] | None:
        """Return the next event; None at the end."""
        if self._binary:
            size = int.from_bytes(self._answer.read(4), "big")
            return self._event(self._answer.read(size)) if size else None
        while not self._held:
            line = self._answer.readline()
            if not line:
                return None
            event = json.loads(line)
            found = event["object"]
            objects = [row["object"] for row in found["rows"]] if "rows" in found else [found]
            self._held = [(event["type"], one["metadata"].get("name", "")) for one in objects]
        return self._held.pop(0)

    @staticmethod
    def _event(event: bytes) -> tuple[str, str]:
        kind, wrapped = protobuf.parse_event(event)
        return kind, "" if kind == "ERROR" else protobuf.of_object(wrapped).name

    def until(self, event: tuple[str, str]) -> list[tuple[str, str]]:
        """Read up to an event; return all that came, with it."""
        found: list[tuple[str, str]] = []
        while event not in found:
            came = self.next()
            assert came is not None, f"{event} did not come, but {found}"
            found.append(came)
        return found


class Audit:
    """Reads who did what, of what was written down after it was made."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = log.stat().st_size
        self._rest = b""
        #: Verb, resource with subresource, namespace and name -> the users.
        self.users: dict[tuple[str, str, str, str], set[str]] = {}

    def read(self) -> dict[tuple[str, str, str, str], set[str]]:
        with self._log.open("rb") as file:
            file.seek(self._at)
            found = file.read()
        self._at += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        for event in map(json.loads, lines):
            about = event.get("objectRef")
            if about is None:
                continue
            what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            key = (event["verb"], what, about.get("namespace", ""), about.get("name", ""))
            user = event.get("impersonatedUser", event["user"])["username"]
            self.users.setdefault(key, set()).add(user)
        return self.users


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what the condition gives once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            assert found, f"not within {seconds} s"
            return found
        time.sleep(0.1)


def started(planes: testing.Planes, folder: Path) -> Iterator[World]:
    """Start everything, and the world that the tests read."""
    manifests, roles = local.tenantry_roles()
    plane = planes.start(manifests=manifests, roles=roles)
    server = local.gateway_server(plane.platform)
    world = World(plane, server, folder)
    text = "\n---\n".join(map(json.dumps, OBJECTS))
    plane.run("apply", "--server-side", "-f", "-", stdin=text)
    for name, owner in (("oil-1", "oil"), ("oil-2", "oil"), ("gas-1", "gas")):
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"capsule.clastix.io/tenant": owner}},
        }
        world.alice("create", "-f", "-", stdin=json.dumps(body))
    bob = world.kubeconfig("bob", USERS, "wind-owners")
    world.run(bob, "create", "namespace", "wind-1")
    alice = world.kubeconfig("alice", USERS)
    for path, names in ((alice, ("oil-1", "oil-2", "gas-1")), (bob, ("wind-1",))):
        caller = Caller(path)
        for name in names:
            notes = {"metadata": {"name": "wind-notes" if path == bob else f"{name}-notes"}}
            there = f"/api/v1/namespaces/{name}/configmaps"
            # The owner's RoleBindings come a moment later.
            eventually(
                lambda caller=caller, there=there, notes=notes: (  # type: ignore[misc]
                    caller.ask("POST", there, notes)[0] == 201
                )
            )
        caller.close()
    plane.run("create", "serviceaccount", "robot", "-n", "oil-1")
    yield world
