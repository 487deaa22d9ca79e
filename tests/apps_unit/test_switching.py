"""What `tenantry tenancy check` says of an installation of Capsule (specs/capsule 1.15, 6)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration
from tenantry.apps import certificates, hooks, roles
from tenantry.apps.switching import examining, installation, kinds, projections, settings, snapshot
from tenantry.cli import crds
from tenantry.tenancy.checking import findings, views

Object = dict[str, Any]
TENANTS = "tenants.capsule.clastix.io"


def found(**facts: Any) -> snapshot.Snapshot:
    return snapshot.Snapshot(**facts)


def config(**spec: Any) -> Object:
    read = msgspec.convert(
        {"metadata": {"name": "default"}, "spec": spec}, configuration.CapsuleConfiguration
    )
    return {"configuration": read, "configured": True}


def only(told: Iterable[findings.Finding]) -> findings.Finding:
    (one,) = told
    return one


def test_a_cluster_with_nothing_in_it_has_nothing_to_tell() -> None:
    assert examining.examine(found()) == []
    assert not examining.blocks([])


def test_what_could_not_be_read_blocks_and_is_named() -> None:
    told = examining.examine(found(problems={"namespaces": "namespaces is forbidden"}))
    assert examining.blocks(told)
    assert told[0].place == "Check namespaces"
    assert told[0].now == "could not be read: namespaces is forbidden"


# ---- what runs ----------------------------------------------------------------------------------


def capsule(replicas: int = 1, *arguments: str, kind: str = "Deployment") -> snapshot.Workload:
    return snapshot.Workload(
        kind=kind, name=snapshot.DEPLOYMENT, replicas=replicas, arguments=arguments
    )


ELECTS = "--enable-leader-election"


def test_capsule_that_runs_blocks() -> None:
    one = only(installation.running(found(workloads=[capsule(2, ELECTS)])))
    assert (one.severity, one.namespace) == ("blocks", "capsule-system")
    assert one.now == "Capsule runs: 2 replicas"
    assert "Tenantry's controller waits" in one.then
    assert one.remedy.endswith("scale deployment capsule-controller-manager --replicas=0")


@pytest.mark.parametrize("arguments", [(), ("--enable-leader-election=false",)])
def test_without_election_both_would_write(arguments: tuple[str, ...]) -> None:
    one = only(installation.running(found(workloads=[capsule(1, *arguments)])))
    assert "both controllers write at once" in one.then


def test_capsule_that_is_stopped_is_no_finding() -> None:
    assert [*installation.running(found(workloads=[capsule(0, ELECTS)]))] == []


def test_another_configuration_blocks() -> None:
    one = only(
        installation.running(found(workloads=[capsule(0, "--configuration-name=capsule-default")]))
    )
    assert one.severity == "blocks"
    assert "--configuration-name=capsule-default" in one.remedy
    agreed = found(
        configuration_name="x", workloads=[capsule(0, "--configuration-name=x")]
    )  # fmt: skip
    assert [*installation.running(agreed)] == []


@pytest.mark.parametrize(
    ("left", "replicas", "severity"),
    [(10.0, 1, "blocks"), (10.0, 0, "note"), (-60.0, 0, None)],
)
def test_the_lease_of_capsule(left: float, replicas: int, severity: str | None) -> None:
    lease = snapshot.Lease(holder="capsule-controller-manager-abc_1", left=left)
    told = [
        one
        for one in installation.running(
            found(workloads=[capsule(replicas, ELECTS)], lease=lease)
        )
        if one.kind == "Lease"
    ]  # fmt: skip
    assert [one.severity for one in told] == ([severity] if severity else [])
    assert all(one.name == "42c733ea.clastix.capsule.io" == roles.LEASE for one in told)


@pytest.mark.parametrize(
    ("labels", "name", "account", "kept"),
    [
        ({}, snapshot.DEPLOYMENT, "capsule", True),
        ({}, snapshot.DEPLOYMENT, "other", True),
        ({}, "release-controller-manager", "capsule", True),
        ({}, "capsule-proxy", "capsule-proxy", False),
        ({"app.kubernetes.io/part-of": "tenantry"}, "tenantry-controller", "capsule", False),
    ],
)
def test_what_runs_capsule(labels: Object, name: str, account: str, kept: bool) -> None:
    pod = {"serviceAccountName": account, "containers": [{"args": [ELECTS]}]}
    raw = json.dumps(
        {"metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": pod}}}
    ).encode()
    one = projections.workload("Deployment", raw)
    assert (one is not None) == kept
    assert one is None or (one.replicas, one.arguments) == (1, (ELECTS,))


# ---- webhooks -----------------------------------------------------------------------------------


def webhook(name: str, path: str, service: str = hooks.SERVICE, *, hook: str = "x") -> Object:
    place = {"namespace": "capsule-system", "name": service, "path": path}
    return {
        "metadata": {"name": name},
        "webhooks": [{"name": hook, "clientConfig": {"service": place}}],
    }


def of_hooks(*objects: Object, **facts: Any) -> list[findings.Finding]:
    kept = [
        projections.webhooks("ValidatingWebhookConfiguration", json.dumps(obj).encode())
        for obj in objects
    ]
    return [*installation.hooked(found(hooks=kept, **facts))]


def test_webhooks_of_capsule_block_by_name_by_service_and_by_how_they_are_called() -> None:
    one = only(of_hooks(webhook("capsule-validating-webhook-configuration", "/pods")))
    assert one.severity == "blocks"
    assert "Tenantry does not answer at /pods" in one.then
    assert one.remedy.endswith(
        "kubectl delete validatingwebhookconfiguration capsule-validating-webhook-configuration"
    )
    one = only(of_hooks(webhook("release-dynamic-webhook", "/pods/validating")))
    assert "does not answer" not in one.then
    hook = "pods.validating.projectcapsule.dev"
    one = only(of_hooks(webhook("x", "/pods/validating", "of-the-release", hook=hook)))
    assert one.severity == "blocks"
    named = {"serviceName": "of-the-release"}
    one = only(of_hooks(webhook("x", "/y", "of-the-release"), **config(admission=named)))
    assert one.severity == "blocks"


def test_webhooks_of_others_and_our_own_are_no_finding() -> None:
    assert of_hooks(webhook("kyverno", "/validate", "kyverno-svc")) == []
    assert of_hooks(webhook(hooks.NAME, hooks.VALIDATE)) == []


def test_what_tenantry_registered_under_a_name_of_capsule_is_ours() -> None:
    name = "capsule-dynamic-webhook"
    made = webhook(name, "/pods/validating", hook="a")
    made["webhooks"] += webhook(name, "/pods/validating", hook="b")["webhooks"]
    entry = {
        "manager": "projectcapsule.dev/controller/webhooks",
        "operation": "Apply",
        "fieldsV1": {"f:webhooks": {'k:{"name":"a"}': {}}},
    }
    made["metadata"]["managedFields"] = [entry]
    assert only(of_hooks(made)).now == "1 webhook of Capsule"
    del made["webhooks"][1]
    assert of_hooks(made) == []


def test_labels_on_every_object_go() -> None:
    told = of_hooks(webhook("capsule-dynamic-webhook", "/generic/metadata"))
    assert [one.severity for one in told] == ["blocks", "changes"]
    assert "capsule.clastix.io/managed-by" in told[1].now


# ---- kinds --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours() -> dict[str, snapshot.Definition]:
    return {one.name: one for one in map(projections.definition, crds.bundled("crds"))}


def of_kinds(
    ours: dict[str, snapshot.Definition], *more: snapshot.Definition, **changes: Any
) -> list[findings.Finding]:
    """Tell of a cluster with our kinds, that of Tenants changed, and with more."""
    there = {**ours, TENANTS: dataclasses.replace(ours[TENANTS], **changes)}
    objects = {"customquotas.capsule.clastix.io": 3}
    return [
        *kinds.defined(
            found(wanted=ours, definitions=[*there.values(), *more], objects=objects)
        )
    ]  # fmt: skip


def test_our_own_kinds_are_no_finding(ours: dict[str, snapshot.Definition]) -> None:
    assert of_kinds(ours) == []


def test_fields_on_either_side(ours: dict[str, snapshot.Definition]) -> None:
    fields = dict(ours[TENANTS].fields)
    fields["v1beta2"] = (fields["v1beta2"] - {"spec.rules"}) | {"spec.new", "spec.new.below"}
    fields["v1beta2"] = frozenset(
        path for path in fields["v1beta2"] if not path.startswith("spec.rules")
    )
    told = {one.severity: one for one in of_kinds(ours, fields=fields)}
    assert told["changes"].now == "has 1 field that Tenantry does not know: spec.new"
    assert told["note"].now == "lacks 1 field: spec.rules"


def test_versions(ours: dict[str, snapshot.Definition]) -> None:
    one = only(of_kinds(ours, stored=frozenset({"v1alpha1", "v1beta2"})))
    assert (one.severity, one.field) == ("blocks", "status.storedVersions")
    both = {"stored": frozenset({"v1beta1", "v1beta2"}), "converter": "capsule-system/x"}
    assert [one.severity for one in of_kinds(ours, **both)] == ["changes", "changes"]
    assert of_kinds(ours, stored=frozenset({"v1beta2"})) == []


@pytest.mark.parametrize(
    ("converter", "severity"),
    [("", None), (f"capsule-system/{hooks.SERVICE}", "note"), ("elsewhere/x", "changes")],
)
def test_who_converts(
    ours: dict[str, snapshot.Definition], converter: str, severity: str | None
) -> None:
    told = of_kinds(ours, converter=converter)
    assert [one.severity for one in told] == ([severity] if severity else [])


def test_kinds_that_nobody_would_act_on(ours: dict[str, snapshot.Definition]) -> None:
    def kind(plural: str, name: str) -> snapshot.Definition:
        return snapshot.Definition(
            name=f"{plural}.capsule.clastix.io", kind=name, served=frozenset({"v1beta2"}),
            stored=frozenset(), fields={},
        )  # fmt: skip

    told = of_kinds(
        ours, kind("customquotas", "CustomQuota"), kind("resourcepools", "ResourcePool")
    )
    assert [(one.severity, one.now) for one in told] == [
        ("blocks", "3 objects of kind CustomQuota"),
        ("note", "0 objects of kind ResourcePool"),
    ]


def test_kinds_that_are_missing(ours: dict[str, snapshot.Definition]) -> None:
    told = [*kinds.defined(found(wanted=ours, definitions=[]))]
    assert {one.severity for one in told} == {"note"}
    assert len(told) == len(ours)


# ---- settings -----------------------------------------------------------------------------------


def of_settings(**spec: Any) -> list[tuple[str, str]]:
    return [(one.severity, one.field) for one in settings.configured(found(**config(**spec)))]


def admission(path: str) -> Object:
    hook = {"name": "a", "path": path, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {"mutating": {"client": {"url": "https://x"}, "webhooks": [hook]}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"users": [{"kind": "Group", "name": "projectcapsule.dev"}]}, []),
        ({"userGroups": ["a"]}, [("note", "spec.userGroups")]),
        ({"userNames": ["a"]}, [("note", "spec.userNames")]),
        ({"protectedNamespaceRegex": "("}, [("blocks", "spec.protectedNamespaceRegex")]),
        ({"users": [{"kind": "ServiceAccount", "name": "robot"}]},
         [("blocks", "spec.users[0].name")]),
        ({"admission": admission("/resourcepools/mutating")},
         [("changes", "spec.admission.mutating.webhooks")]),
        ({"admission": admission("/namespaces/mutating")}, [("note", "spec.admission.mutating")]),
        ({"cacheInvalidation": "30m"}, [("note", "spec.cacheInvalidation")]),
    ],
)  # fmt: skip
def test_what_the_configuration_says(spec: Object, expected: list[tuple[str, str]]) -> None:
    assert of_settings(**spec) == expected


def test_roles_of_the_configuration_that_cannot_be_given() -> None:
    known = views.Tenancy(
        roles=[views.Role(name="helper", aggregated=False)],
    )
    facts = config(rbac={"administrationClusterRoles": ["helper", "capsule-namespace-deleter"]})
    one = only(settings.configured(found(tenancy=known, **facts)))
    assert (one.severity, one.field) == ("blocks", "spec.rbac.administrationClusterRoles")


def test_a_configuration_that_is_missing_or_broken() -> None:
    assert only(settings.configured(found(configured=False))).severity == "note"
    assert only(settings.configured(found(configured=True, broken="x"))).severity == "blocks"
    assert [*settings.configured(found())] == []  # not read: another finding says so


@pytest.mark.parametrize(
    ("reconciles", "ours", "severity"),
    [(True, False, "blocks"), (True, True, None), (False, False, "note")],
)
def test_the_secret_of_capsule(reconciles: bool, ours: bool, severity: str | None) -> None:
    told = settings.certificate(
        found(
            secret=snapshot.Secret(name=certificates.CAPSULE_SECRET, ours=ours),
            **config(enableTLSReconciler=reconciles),
        )
    )
    assert [(one.severity, one.name) for one in told] == (
        [(severity, "capsule-tls")] if severity else []
    )


def test_cluster_admin_can_go() -> None:
    one = only(installation.rights(found(almighty=["capsule-manager-rolebinding"])))
    assert one.severity == "note"
    assert one.remedy.endswith("kubectl delete clusterrolebinding capsule-manager-rolebinding")
