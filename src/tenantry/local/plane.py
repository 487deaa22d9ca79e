"""What runs for a plan: command lines, environments, probes and order, as data.

Pure: the same plan gives the same units. `supervision` decides when each starts and stops,
`supervisor` does it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenantry.local import credentials, plan, state, supervision

#: Tasks: objects that must exist before roles, nodes or users can be served.
MANIFESTS = "manifests"
TOKENS = "tokens"
NODES = "nodes"

_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
# The control plane's own reading and heartbeats say nothing about who did what.
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kwok"]
  verbs: [get, list, watch]
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]
- level: Metadata
"""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A GET that answers 200 when a unit does its work."""

    url: str
    #: What the server's certificate must be signed by, and what to show it.
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Process:
    unit: supervision.Unit
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    #: None = ready as soon as it is started.
    probe: Probe | None = None

    @property
    def name(self) -> str:
        return self.unit.name


def api_server_names(described: plan.Plan) -> tuple[str, ...]:
    """Return the units' names: the first is the one kubeconfigs point at."""
    more = (f"{plan.API_SERVER}-{i}" for i in range(2, len(described.api_ports) + 1))
    return (plan.API_SERVER, *more)


def processes(described: plan.Plan, paths: state.Layout) -> tuple[Process, ...]:
    """Return every process of the plan."""
    return (
        _etcd(described, paths),
        *(_api_server(described, paths, i) for i in range(len(described.api_ports))),
        *(_OPTIONAL[name](described, paths) for name in described.components),
        *(_role(described, paths, role) for role in described.roles),
    )


def tasks(described: plan.Plan) -> tuple[supervision.Unit, ...]:
    """Return what has to be done once per start, between processes."""
    servers = api_server_names(described)
    found = [supervision.Unit(name=MANIFESTS, kind="task", after=servers)]
    if described.roles:
        found.append(supervision.Unit(name=TOKENS, kind="task", after=(MANIFESTS,)))
    if plan.KWOK in described.components:
        found.append(supervision.Unit(name=NODES, kind="task", after=(plan.KWOK,)))
    return tuple(found)


def files(paths: state.Layout) -> dict[Path, bytes]:
    """Return the configuration files that the processes read, beside their credentials."""
    return {
        paths.config / "audit-policy.yaml": _AUDIT_POLICY.encode(),
        paths.config / "admission.yaml": _admission(paths).encode(),
        paths.config / "webhook-client.yaml": _webhook_client(paths).encode(),
    }


def _admission(paths: state.Layout) -> str:
    """Let API servers introduce themselves to webhooks, so that reviews cannot be forged."""
    client = json.dumps(str(paths.config / "webhook-client.yaml"))
    plugins = "".join(
        f"""
- name: {kind}AdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: {client}"""
        for kind in ("Mutating", "Validating")
    )
    kind = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration"
    return f"{kind}\nplugins:{plugins}\n"


def _webhook_client(paths: state.Layout) -> str:
    certificate, key = (paths.pki / f"front-proxy-client.{end}" for end in ("crt", "key"))
    return f"""\
apiVersion: v1
kind: Config
users:
- name: "*"
  user:
    client-certificate: {json.dumps(str(certificate))}
    client-key: {json.dumps(str(key))}
"""


def _flags(**values: object) -> tuple[str, ...]:
    return tuple(f"--{key.replace('_', '-')}={value}" for key, value in values.items())


def _etcd(described: plan.Plan, paths: state.Layout) -> Process:
    pki = paths.pki
    url = f"https://127.0.0.1:{described.ports[plan.ETCD]}"
    probes = f"https://127.0.0.1:{described.ports[plan.ETCD_PROBES]}"
    # One member has no peers, yet etcd insists on a peer address: any free port, behind TLS.
    peer = "https://127.0.0.1:0"
    flags = _flags(
        name="tenantry",
        data_dir=paths.etcd,
        listen_client_urls=url,
        listen_client_http_urls=probes,
        advertise_client_urls=url,
        cert_file=pki / "etcd-server.crt",
        key_file=pki / "etcd-server.key",
        client_cert_auth="true",
        trusted_ca_file=pki / "etcd-ca.crt",
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"tenantry={peer}",
        peer_cert_file=pki / "etcd-server.crt",
        peer_key_file=pki / "etcd-server.key",
        peer_client_cert_auth="true",
        peer_trusted_ca_file=pki / "etcd-ca.crt",
        # The gateway would call etcd with the server's certificate, which is not a client's.
        enable_grpc_gateway="false",
        quota_backend_bytes=4 * 2**30,
    )
    return Process(
        unit=supervision.Unit(name=plan.ETCD),
        argv=(
            described.binaries[plan.ETCD],
            *flags,
            *(() if described.durable else ("--unsafe-no-fsync",)),
        ),
        probe=Probe(
            url=f"{probes}/readyz",
            ca=pki / "etcd-ca.crt",
            cert=pki / "etcd-client.crt",
            key=pki / "etcd-client.key",
        ),
    )


def _api_server(described: plan.Plan, paths: state.Layout, index: int) -> Process:
    pki = paths.pki
    name = api_server_names(described)[index]
    port = described.api_ports[index]
    own = described.addresses[index] if described.addresses else ""
    plugins = ["NodeRestriction", "PodNodeSelector"]
    if index + 1 in described.odd_servers:
        plugins.remove("PodNodeSelector")
    flags = _flags(
        etcd_servers=f"https://127.0.0.1:{described.ports[plan.ETCD]}",
        etcd_cafile=pki / "etcd-ca.crt",
        etcd_certfile=pki / "etcd-client.crt",
        etcd_keyfile=pki / "etcd-client.key",
        bind_address=own or "127.0.0.1",
        secure_port=port,
        advertise_address=own or "127.0.0.1",
        # Endpoints may not hold loopback addresses; nothing here reaches the API through them.
        endpoint_reconciler_type="lease" if own else "none",
        tls_cert_file=pki / "serving.crt",
        tls_private_key_file=pki / "serving.key",
        client_ca_file=pki / "ca.crt",
        service_account_key_file=pki / "service-account.crt",
        service_account_signing_key_file=pki / "service-account.key",
        service_account_issuer="https://kubernetes.default.svc.cluster.local",
        service_cluster_ip_range=credentials.SERVICE_RANGE,
        authorization_mode="Node,RBAC",
        enable_admission_plugins=",".join(plugins),
        enable_aggregator_routing="true",
        allow_privileged="true",
        requestheader_client_ca_file=pki / "front-proxy-ca.crt",
        requestheader_allowed_names="front-proxy-client",
        requestheader_username_headers="X-Remote-User",
        requestheader_group_headers="X-Remote-Group",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        proxy_client_cert_file=pki / "front-proxy-client.crt",
        proxy_client_key_file=pki / "front-proxy-client.key",
        admission_control_config_file=paths.config / "admission.yaml",
        audit_policy_file=paths.config / "audit-policy.yaml",
        audit_log_path=paths.log("audit" if index == 0 else f"audit-{index + 1}"),
        audit_log_maxsize=64,
        audit_log_maxbackup=2,
    )
    return Process(
        unit=supervision.Unit(name=name, after=(plan.ETCD,), start_timeout=120.0),
        argv=(described.binaries[plan.API_SERVER], *flags),
        probe=Probe(url=f"{described.servers[index]}/readyz", ca=pki / "ca.crt"),
    )


def _controller_manager(described: plan.Plan, paths: state.Layout) -> Process:
    pki = paths.pki
    flags = _flags(
        kubeconfig=paths.kubeconfig(plan.CONTROLLER_MANAGER),
        bind_address="127.0.0.1",
        secure_port=described.ports[plan.CONTROLLER_MANAGER],
        tls_cert_file=pki / "serving.crt",
        tls_private_key_file=pki / "serving.key",
        service_account_private_key_file=pki / "service-account.key",
        root_ca_file=pki / "ca.crt",
        cluster_signing_cert_file=pki / "ca.crt",
        cluster_signing_key_file=pki / "ca.key",
        use_service_account_credentials="true",
        # There is only one; waiting for the lease of its predecessor would cost 15 s.
        leader_elect="false",
        kube_api_qps=200,
        kube_api_burst=400,
    )
    return _component(plan.CONTROLLER_MANAGER, flags, described=described, paths=paths)


def _scheduler(described: plan.Plan, paths: state.Layout) -> Process:
    flags = _flags(
        kubeconfig=paths.kubeconfig(plan.SCHEDULER),
        bind_address="127.0.0.1",
        secure_port=described.ports[plan.SCHEDULER],
        tls_cert_file=paths.pki / "serving.crt",
        tls_private_key_file=paths.pki / "serving.key",
        leader_elect="false",
        kube_api_qps=200,
        kube_api_burst=400,
    )
    return _component(plan.SCHEDULER, flags, described=described, paths=paths)


def _component(
    name: str, flags: tuple[str, ...], *, described: plan.Plan, paths: state.Layout
) -> Process:
    return Process(
        unit=supervision.Unit(name=name, after=(plan.API_SERVER,)),
        argv=(described.binaries[name], *flags),
        probe=Probe(
            url=f"https://127.0.0.1:{described.ports[name]}/healthz", ca=paths.pki / "ca.crt"
        ),
    )


def _kwok(described: plan.Plan, paths: state.Layout) -> Process:
    address = f"127.0.0.1:{described.ports[plan.KWOK]}"
    flags = _flags(
        config=described.binaries[plan.STAGES],
        kubeconfig=paths.kubeconfig(plan.KWOK),
        manage_all_nodes="true",
        server_address=address,
    )
    return Process(
        # Its permissions are among the manifests.
        unit=supervision.Unit(name=plan.KWOK, after=(MANIFESTS,)),
        argv=(described.binaries[plan.KWOK], *flags),
        probe=Probe(url=f"http://{address}/readyz"),
    )


_OPTIONAL = {
    plan.CONTROLLER_MANAGER: _controller_manager,
    plan.SCHEDULER: _scheduler,
    plan.KWOK: _kwok,
}


def _role(described: plan.Plan, paths: state.Layout, role: plan.Role) -> Process:
    def fill(text: str) -> str:
        return plan.filled(text, role, described, paths)

    return Process(
        unit=supervision.Unit(name=role.name, after=(TOKENS,), stop_grace=role.stop_grace),
        argv=tuple(fill(part) for part in role.argv),
        env={"KUBECONFIG": str(paths.kubeconfig(role.name))}
        | {key: fill(value) for key, value in role.env.items()},
        probe=Probe(url=fill(role.ready)) if role.ready else None,
    )
