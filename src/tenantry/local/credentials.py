"""The platform's certificates: who signs, who serves, and as whom each unit speaks.

Authorities and the service account key stay for the platform's life, since what users were given
hangs on them. Everything they sign for the platform's own units is made anew at every start.

The authority of the API server, the one of etcd and the one of the front proxy are different:
a tenant's certificate, signed by the first, must open neither of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tenantry.local import errors, kubeconfig, plan, state
from tenantry.pki import authority
from tenantry.pki import errors as pki_errors

CLUSTER_CA = "ca"
ETCD_CA = "etcd-ca"
PROXY_CA = "front-proxy-ca"
ADMIN = "admin"
#: kube-apiserver grants this group everything, before any RBAC object exists.
ADMIN_GROUP = "system:masters"
#: The first address of the service range is the API server's own.
SERVICE_RANGE = "10.96.0.0/16"
SERVER_NAMES = (
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
#: Unit -> the user it is known as to the API server.
UNIT_USERS = {
    plan.CONTROLLER_MANAGER: "system:kube-controller-manager",
    plan.SCHEDULER: "system:kube-scheduler",
    plan.KWOK: "system:kwok",
}


def ensure(described: plan.Plan, paths: state.Layout, now: float) -> None:
    """Write every certificate, key and kubeconfig that the plan's units read."""
    cluster = _authority(paths, CLUSTER_CA, now)
    etcd = _authority(paths, ETCD_CA, now)
    proxy = _authority(paths, PROXY_CA, now)
    if state.read(paths.pki / "service-account.key") is None:
        _store(paths, "service-account", authority.signing_key())
    _store(paths, "serving", cluster.issue_server((*SERVER_NAMES, *described.addresses), now))
    # Where tenants find the API: the same authority, so that one kubeconfig's trust fits both.
    _store(paths, "gateway", cluster.issue_server(SERVER_NAMES, now))
    _store(paths, "etcd-server", etcd.issue_server(("127.0.0.1", "localhost"), now))
    _store(paths, "etcd-client", etcd.issue_client(plan.API_SERVER, (), now))
    _store(paths, "front-proxy-client", proxy.issue_client("front-proxy-client", (), now))

    def write(name: str, user: str, groups: Sequence[str]) -> None:
        content = kubeconfig.with_certificate(
            platform=described.name,
            server=described.server,
            ca=cluster.cert,
            user=user,
            issued=cluster.issue_client(user, groups, now),
        )
        state.write(paths.kubeconfig(name), content)

    write(ADMIN, ADMIN, [ADMIN_GROUP])
    for unit, user in UNIT_USERS.items():
        write(unit, user, [])
    for role in described.roles:
        content = kubeconfig.with_token_file(
            platform=described.name,
            server=described.server,
            ca=cluster.cert,
            user=role.service_account,
            token=token_file(paths, role),
        )
        state.write(paths.kubeconfig(role.name), content)


def for_user(
    described: plan.Plan, paths: state.Layout, *, user: str, groups: Sequence[str], now: float,
    server: str = "",
) -> bytes:  # fmt: skip
    """Return a kubeconfig with a client certificate for any user; the platform need not run.

    :param server: address of a gateway, instead of the API server's
    """
    cluster = _loaded(paths, CLUSTER_CA)
    if cluster is None:
        raise errors.BrokenStateError(paths.pki / f"{CLUSTER_CA}.key", "it is missing")
    return kubeconfig.with_certificate(
        platform=described.name,
        server=server or described.server,
        ca=cluster.cert,
        user=user,
        issued=cluster.issue_client(user, groups, now),
    )


def token_file(paths: state.Layout, role: plan.Role) -> Path:
    """Return the file that holds a role's token."""
    return paths.tokens / role.name


def _authority(paths: state.Layout, name: str, now: float) -> authority.Authority:
    kept = _loaded(paths, name)
    if kept is None:
        kept = authority.Authority.create(f"tenantry-{paths.name}-{name}", now)
        # The key first: a certificate without its key would be taken for broken state.
        state.write(paths.pki / f"{name}.key", kept.key)
        state.write(paths.pki / f"{name}.crt", kept.cert)
    return kept


def _loaded(paths: state.Layout, name: str) -> authority.Authority | None:
    cert = state.read(paths.pki / f"{name}.crt")
    if cert is None:
        return None
    try:
        return authority.Authority.load(cert, state.read(paths.pki / f"{name}.key") or b"")
    except pki_errors.BrokenCertificateError as err:
        raise errors.BrokenStateError(paths.pki / f"{name}.crt", err.reason) from err


def _store(paths: state.Layout, name: str, issued: authority.Issued) -> None:
    state.write(paths.pki / f"{name}.key", issued.key)
    state.write(paths.pki / f"{name}.crt", issued.cert)
