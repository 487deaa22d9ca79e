"""GitOps keeps the configuration, we keep the caBundle, and neither writes over the other."""

from __future__ import annotations

import base64
import copy
import time
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.pki import authority
from tenantry.runtime import apply, registration

pytestmark = pytest.mark.plane

Object = dict[str, Any]
OURS = "ours"


def bundle(name: str) -> str:
    return base64.b64encode(authority.Authority.create(name, time.time()).cert).decode()


def hook(name: str, service: str = "hooks", **more: Any) -> Object:
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["nothing"],
        "operations": ["CREATE"],
    }
    return {
        "name": name,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "n", "name": service, "path": "/x"}, **more},
    }


def configuration(name: str, *hooks: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }


@pytest.fixture
def applier(admin: kube.Client) -> apply.Applier:
    return apply.Applier(admin, OURS)


async def read(admin: kube.Client, name: str) -> Object:
    return await admin.get(resources.VALIDATING_WEBHOOKS, name)


async def step(admin: kube.Client, applier: apply.Applier, full: Object) -> bool:
    """Do what a registration's reconcile does; tells whether something was written."""
    observed = None
    if any(
        full["metadata"]["name"].encode() in bytes(raw)
        for raw in (await admin.list(resources.VALIDATING_WEBHOOKS)).items
    ):
        observed = await read(admin, full["metadata"]["name"])
    outcome = await applier.apply(
        resources.VALIDATING_WEBHOOKS, registration.wanted(full, observed, OURS), observed
    )
    return outcome.sent


async def test_alone_everything_is_ours(
    admin: kube.Client, namespace: str, applier: apply.Applier
) -> None:
    full = configuration(namespace, hook("a.example.com", caBundle=bundle("one")))
    assert await step(admin, applier, full)
    assert not await step(admin, applier, full)
    wider = copy.deepcopy(full)
    wider["webhooks"][0]["rules"][0]["operations"] = ["CREATE", "DELETE"]
    assert await step(admin, applier, wider)
    stored = await read(admin, namespace)
    assert stored["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "DELETE"]


async def test_beside_gitops_only_the_ca_bundle_is_ours(
    admin: kube.Client, namespace: str, applier: apply.Applier
) -> None:
    theirs = configuration(namespace, hook("x.example.com"), hook("y.example.com", "other"))

    async def gitops() -> Object:
        # Without force: a conflict would be a fight.
        return await admin.apply(
            resources.VALIDATING_WEBHOOKS, theirs, field_manager="argocd", force=False
        )

    await gitops()
    first, second = bundle("one"), bundle("two")
    full = configuration(namespace, hook("a.example.com", caBundle=first))
    assert await step(admin, applier, full)
    assert not await step(admin, applier, full)
    theirs["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
    await gitops()
    assert not await step(admin, applier, full), "what they changed is theirs"
    # A rotation: the bundle is ours, and their next apply leaves it.
    full["webhooks"][0]["clientConfig"]["caBundle"] = second
    assert await step(admin, applier, full)
    await gitops()
    stored = await read(admin, namespace)
    assert [each["name"] for each in stored["webhooks"]] == ["x.example.com", "y.example.com"]
    assert stored["webhooks"][0]["clientConfig"]["caBundle"] == second
    assert stored["webhooks"][0]["rules"][0]["operations"] == ["DELETE"]
    assert "caBundle" not in stored["webhooks"][1]["clientConfig"]


async def test_beside_gitops_what_follows_the_cluster_is_ours_as_well(
    admin: kube.Client, namespace: str, applier: apply.Applier
) -> None:
    theirs = configuration(namespace, hook("x.example.com"))
    ca = bundle("one")
    full = configuration(
        namespace, hook("x.example.com", caBundle=ca), hook("moving.example.com", caBundle=ca)
    )

    async def gitops() -> Object:
        return await admin.apply(
            resources.VALIDATING_WEBHOOKS, theirs, field_manager="argocd", force=False
        )

    async def moved() -> list[str]:
        """Do what a reconcile does; tells whose webhooks there are then."""
        observed = await read(admin, namespace)
        share = registration.wanted(full, observed, OURS, {"moving.example.com"})
        await applier.apply(resources.VALIDATING_WEBHOOKS, share, observed)
        await gitops()
        return [each["name"] for each in (await read(admin, namespace))["webhooks"]]

    await gitops()
    assert await moved() == ["x.example.com", "moving.example.com"]
    # As rules of tenants come and go.
    full["webhooks"][1]["rules"][0]["operations"] = ["DELETE"]
    assert await moved() == ["x.example.com", "moving.example.com"]
    stored = (await read(admin, namespace))["webhooks"]
    assert [each["rules"][0]["operations"] for each in stored] == [["CREATE"], ["DELETE"]]
    assert all(each["clientConfig"]["caBundle"] == ca for each in stored)
    del full["webhooks"][1]
    assert await moved() == ["x.example.com"]


async def test_gitops_takes_over_what_was_ours(
    admin: kube.Client, namespace: str, applier: apply.Applier
) -> None:
    ca = bundle("one")
    full = configuration(namespace, hook("a.example.com", caBundle=ca))
    await step(admin, applier, full)
    theirs = configuration(namespace, hook("a.example.com"))
    theirs["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
    await admin.apply(resources.VALIDATING_WEBHOOKS, theirs, field_manager="argocd", force=True)
    await step(admin, applier, full)
    assert not await step(admin, applier, full)
    stored = await read(admin, namespace)
    assert stored["webhooks"][0]["rules"][0]["operations"] == ["DELETE"]
    assert stored["webhooks"][0]["clientConfig"]["caBundle"] == ca


def test_a_policy_denies_by_its_binding() -> None:
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "p"}}
    (first, same), (second, binding) = registration.denying(policy)
    assert (first, second) == (
        resources.VALIDATING_POLICIES,
        resources.VALIDATING_POLICY_BINDINGS,
    )
    assert same is policy
    assert binding["spec"] == {"policyName": "p", "validationActions": ["Deny"]}
    assert binding["metadata"] == {"name": "p"}


def test_addresses_are_compared_without_their_paths() -> None:
    full = configuration("n", hook("a"))
    full["webhooks"][0]["clientConfig"] = {"url": "https://h:1/validate", "caBundle": "B"}
    observed = configuration("n", hook("x"), hook("y"), hook("z"))
    for each, url in zip(
        observed["webhooks"], ("https://h:1/old", "https://h:2/", ""), strict=True
    ):
        each["clientConfig"] = {"url": url} if url else {}
    observed["metadata"]["managedFields"] = [
        {
            "manager": "helm",
            "operation": "Update",
            "fieldsV1": {"f:webhooks": {"k:x": {"f:rules": {}}}},
        }
    ]
    assert registration.wanted(full, observed, OURS)["webhooks"] == [
        {"name": "x", "clientConfig": {"caBundle": "B"}}
    ]
    assert registration.wanted(full, observed, "helm") is full
