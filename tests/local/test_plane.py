from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from tenantry.local import plan, plane, state, supervision

PATHS = state.Layout(Path("/state/one"))
ROLE = plan.Role(
    name="controller",
    argv=("python", "-m", "tenantry", "controller", "--health=127.0.0.1:{health}"),
    service_account="capsule",
    ports=("health",),
    ready="http://127.0.0.1:{health}/readyz",
    env={"WHERE": "{root}"},
)
PLAN = plan.Plan(
    name="one",
    binaries={
        name: f"/bin/{name}"
        for name in (plan.ETCD, plan.API_SERVER, *plan.OPTIONAL, plan.KUBECTL, plan.STAGES)
    },
    api_ports=(20001, 20002),
    ports={name: 20010 + i for i, name in enumerate(plan.listeners(plan.OPTIONAL, (ROLE,)))},
    roles=(ROLE,),
)


def flags(name: str) -> dict[str, str]:
    process = next(p for p in plane.processes(PLAN, PATHS) if p.name == name)
    return dict(flag.removeprefix("--").split("=", 1) for flag in process.argv[1:])


def test_order() -> None:
    units = [p.unit for p in plane.processes(PLAN, PATHS)]
    after = {unit.name: unit.after for unit in [*units, *plane.tasks(PLAN)]}
    assert after == {
        "etcd": (),
        "kube-apiserver": ("etcd",),
        "kube-apiserver-2": ("etcd",),
        "kube-controller-manager": ("kube-apiserver",),
        "kube-scheduler": ("kube-apiserver",),
        "manifests": ("kube-apiserver", "kube-apiserver-2"),
        "kwok": ("manifests",),
        "nodes": ("kwok",),
        "tokens": ("manifests",),
        "controller": ("tokens",),
    }
    assert supervision.ordered([*units, *plane.tasks(PLAN)])


def test_without_the_optional_parts() -> None:
    small = msgspec.structs.replace(PLAN, components=(), roles=(), api_ports=(20001,))
    assert [p.name for p in plane.processes(small, PATHS)] == ["etcd", "kube-apiserver"]
    assert [unit.name for unit in plane.tasks(small)] == ["manifests"]


def test_nothing_listens_beyond_this_machine() -> None:
    for process in plane.processes(PLAN, PATHS):
        for flag in process.argv[1:]:
            key, _, value = flag.partition("=")
            if "listen" in key or "address" in key:
                assert "127.0.0.1" in value, flag


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("enable-admission-plugins", "NodeRestriction,PodNodeSelector"),
        ("authorization-mode", "Node,RBAC"),
        ("enable-aggregator-routing", "true"),
        ("audit-log-path", "/state/one/logs/audit.log"),
        ("secure-port", "20001"),
    ],
)
def test_what_tenants_rely_on(flag: str, value: str) -> None:
    assert flags("kube-apiserver")[flag] == value


def test_each_api_server_has_its_own_port_and_audit_log() -> None:
    assert flags("kube-apiserver-2")["secure-port"] == "20002"
    assert flags("kube-apiserver-2")["audit-log-path"] == "/state/one/logs/audit-2.log"


def test_a_tenants_certificate_does_not_open_etcd() -> None:
    assert flags("etcd")["client-cert-auth"] == "true"
    assert flags("etcd")["trusted-ca-file"] != flags("kube-apiserver")["client-ca-file"]
    assert flags("etcd")["peer-client-cert-auth"] == "true"


def test_only_throw_away_data_may_be_lost() -> None:
    assert "--unsafe-no-fsync" not in plane.processes(PLAN, PATHS)[0].argv
    careless = msgspec.structs.replace(PLAN, durable=False)
    assert "--unsafe-no-fsync" in plane.processes(careless, PATHS)[0].argv


def test_a_role_is_its_command_line() -> None:
    role = plane.processes(PLAN, PATHS)[-1]
    port = PLAN.ports["controller.health"]
    assert role.argv == (*ROLE.argv[:-1], f"--health=127.0.0.1:{port}")
    assert role.env == {
        "KUBECONFIG": "/state/one/kubeconfigs/controller.yaml",
        "WHERE": "/state/one",
    }
    assert role.probe == plane.Probe(url=f"http://127.0.0.1:{port}/readyz")


def test_the_audit_policy_records_what_users_do() -> None:
    policy = plane.files(PATHS)[PATHS.config / "audit-policy.yaml"]
    rules = yaml.safe_load(policy)["rules"]
    assert rules[-1] == {"level": "Metadata"}


def test_api_servers_introduce_themselves_to_webhooks() -> None:
    files = plane.files(PATHS)
    admission = yaml.safe_load(files[PATHS.config / "admission.yaml"])
    clients = {
        plugin["name"]: plugin["configuration"]["kubeConfigFile"] for plugin in admission["plugins"]
    }
    path = str(PATHS.config / "webhook-client.yaml")
    assert clients == {"MutatingAdmissionWebhook": path, "ValidatingAdmissionWebhook": path}
    (user,) = yaml.safe_load(files[PATHS.config / "webhook-client.yaml"])["users"]
    assert user == {
        "name": "*",
        "user": {
            "client-certificate": str(PATHS.pki / "front-proxy-client.crt"),
            "client-key": str(PATHS.pki / "front-proxy-client.key"),
        },
    }
