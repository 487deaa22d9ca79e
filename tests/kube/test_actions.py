from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import access, actions, client, errors

pytestmark = pytest.mark.plane


def pod(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    }


@pytest.fixture
async def node(admin: client.Client, namespace: str) -> str:
    name = f"node-{namespace}"
    await admin.create(resources.NODES, {"metadata": {"name": name}})
    return name


async def test_bind_assigns_once_and_adds_metadata(
    admin: client.Client, namespace: str, node: str
) -> None:
    created = await admin.create(resources.PODS, pod(namespace, "one"))
    uid = created["metadata"]["uid"]
    with pytest.raises(errors.Conflict):
        await actions.bind(admin, "one", namespace, node=node, uid="another")
    await actions.bind(admin, "one", namespace, node=node, uid=uid, annotations={"a": "b"})
    bound = await admin.get(resources.PODS, "one", namespace)
    assert bound["spec"]["nodeName"] == node
    assert bound["metadata"]["annotations"] == {"a": "b"}
    with pytest.raises(errors.Conflict):
        await actions.bind(admin, "one", namespace, node=node, uid=uid)


async def test_evict_deletes_the_pod(admin: client.Client, namespace: str) -> None:
    created = await admin.create(resources.PODS, pod(namespace, "one", app="web"))
    uid = created["metadata"]["uid"]
    await actions.evict(admin, "one", namespace, uid=uid, dry_run=True)
    await actions.evict(admin, "one", namespace, uid=uid, grace_seconds=0)
    with pytest.raises(errors.NotFound):
        await admin.get(resources.PODS, "one", namespace)


async def test_budget_refuses_without_waiting(
    admin: client.Client, namespace: str, node: str
) -> None:
    created = await admin.create(resources.PODS, pod(namespace, "one", app="web"))
    await actions.bind(admin, "one", namespace, node=node, uid=created["metadata"]["uid"])
    await admin.patch(
        resources.PODS,
        "one",
        namespace,
        kind="merge",
        body={"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        subresource="status",
    )
    budget = {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = await admin.create(resources.POD_DISRUPTION_BUDGETS, budget)
    # Without a controller manager the budget's status is ours to write.
    await admin.patch(
        resources.POD_DISRUPTION_BUDGETS,
        "web",
        namespace,
        kind="merge",
        body={
            "status": {
                "observedGeneration": made["metadata"]["generation"],
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "disruptionsAllowed": 0,
            }
        },
        subresource="status",
    )
    begun = clock.monotonic()
    with pytest.raises(errors.TooManyRequests) as refused:
        await actions.evict(admin, "one", namespace)
    assert [cause.reason for cause in refused.value.causes] == ["DisruptionBudget"]
    assert clock.monotonic() - begun < 5


async def test_scale_changes_the_replicas_only(admin: client.Client, namespace: str) -> None:
    deployment = {
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            },
        },
    }
    await admin.create(resources.DEPLOYMENTS, deployment)
    scaled = await actions.scale(
        admin, resources.DEPLOYMENTS, "web", namespace, replicas=3, field_manager="tests"
    )
    assert scaled["spec"]["replicas"] == 3
    read = await admin.get(resources.DEPLOYMENTS, "web", namespace)
    assert read["spec"]["replicas"] == 3


async def test_issued_token_is_recognised(admin: client.Client, namespace: str) -> None:
    account = {"metadata": {"name": "robot", "namespace": namespace}}
    await admin.create(resources.SERVICE_ACCOUNTS, account)
    token = await actions.issue_token(admin, "robot", namespace, seconds=600)
    assert token.expires > clock.wall()
    assert token.token not in repr(token)
    name = f"system:serviceaccount:{namespace}:robot"
    found = await access.review_token(admin, token.token)
    assert found.user is not None
    assert found.user.username == name

    secret = {"metadata": {"name": "s", "namespace": namespace}}
    made = await admin.create(resources.SECRETS, secret)
    bound = await actions.issue_token(
        admin,
        "robot",
        namespace,
        audiences=["tests"],
        bound_to={
            "apiVersion": "v1",
            "kind": "Secret",
            "name": "s",
            "uid": made["metadata"]["uid"],
        },
    )
    elsewhere = await access.review_token(admin, bound.token)
    assert elsewhere.user is None
    assert elsewhere.error
    here = await access.review_token(admin, bound.token, audiences=["tests", "other"])
    assert here.user is not None
    assert here.audiences == ("tests",)
