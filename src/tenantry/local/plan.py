"""The plan of a platform: all that decides what runs, as data. It is stored beside its data."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.core import errors as core_errors
from tenantry.local import errors, state

ETCD = "etcd"
#: Where etcd says how it is: probes on the port of gRPC would put gRPC behind an HTTP server.
ETCD_PROBES = "etcd.probes"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"
#: Not a program: what kwok plays, from its own module.
STAGES = "kwok-stages.yaml"
KUBECTL = "kubectl"
#: What a platform can be started without, in tests that need less.
OPTIONAL = (CONTROLLER_MANAGER, SCHEDULER, KWOK)
#: The namespace of Tenantry's own service accounts; the name that Capsule's clients expect.
SYSTEM_NAMESPACE = constants.CONTROLLER_NAMESPACE
MAXIMUM_API_SERVERS = 9


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A process of Tenantry, as a command line.

    In `argv`, `env` and `ready` stand placeholders: `{kubeconfig}` (a file with the role's own
    credentials, which follow the token as it is renewed), `{root}` (the platform's directory),
    `{name}` (the platform's) and one per port in `ports`, such as `{health}`.
    """

    name: str
    argv: tuple[str, ...]
    #: Service account in `namespace` that the role acts as.
    service_account: str
    namespace: str = SYSTEM_NAMESPACE
    #: URL that answers 200 once the role does its work; "" = ready when started.
    ready: str = ""
    #: Names of the ports it listens on; the platform chooses and remembers them.
    ports: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    #: Seconds that it gets to end by itself on `down`.
    stop_grace: float = 10.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    #: Binary -> its path.
    binaries: Mapping[str, str]
    #: Port per API server; kubeconfigs point at the first.
    api_ports: tuple[int, ...]
    #: Address per API server, all of which have the same port then; empty = one port each.
    addresses: tuple[str, ...] = ()
    #: Numbers, from 1, of API servers without the admission plugin PodNodeSelector.
    odd_servers: tuple[int, ...] = ()
    #: Port per listener that only the platform itself knows: unit or "role.port" -> port.
    ports: Mapping[str, int] = {}
    components: tuple[str, ...] = OPTIONAL
    #: Node objects to have; see `nodes`.
    nodes: tuple[dict[str, Any], ...] = ()
    #: Files with objects to apply before the roles start.
    manifests: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    #: False = etcd does not wait for the disk: for data that nobody will miss.
    durable: bool = True

    @property
    def server(self) -> str:
        return self.servers[0]

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the address of each API server as a URL."""
        hosts = self.addresses or ("127.0.0.1",) * len(self.api_ports)
        return tuple(
            f"https://{host}:{port}" for host, port in zip(hosts, self.api_ports, strict=True)
        )


def listeners(components: tuple[str, ...], roles: tuple[Role, ...]) -> tuple[str, ...]:
    """Return the key in `Plan.ports` of every listener but the API servers."""
    own = (ETCD, ETCD_PROBES, *(name for name in OPTIONAL if name in components))
    return (*own, *(f"{role.name}.{port}" for role in roles for port in role.ports))


def filled(text: str, role: Role, plan: Plan, paths: state.Layout) -> str:
    """Fill a role's placeholders; raises InvalidValueError for one that does not exist."""
    values = {port: plan.ports[f"{role.name}.{port}"] for port in role.ports} | {
        "kubeconfig": paths.kubeconfig(role.name),
        "root": paths.root,
        "name": plan.name,
    }
    try:
        return string.Formatter().vformat(text, (), values)
    except (KeyError, IndexError, ValueError):
        accepted = ", ".join(f"{{{key}}}" for key in values)
        raise core_errors.InvalidValueError(f"role {role.name}", text, accepted) from None


def load(paths: state.Layout) -> Plan | None:
    """Read the stored plan of a platform, if it has one."""
    content = state.read(paths.plan)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Plan)
    except msgspec.DecodeError as err:
        raise errors.BrokenStateError(paths.plan, str(err)) from err


def store(plan: Plan, paths: state.Layout) -> None:
    state.write(paths.plan, msgspec.json.format(msgspec.json.encode(plan)))
