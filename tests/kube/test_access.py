from __future__ import annotations

import asyncio

import pytest

from tenantry.api import resources
from tenantry.kube import access, client


@pytest.fixture
async def reader(admin: client.Client, namespace: str) -> str:
    """A group that may read pods in the test's namespace."""
    group = f"readers-{namespace}"
    metadata = {"name": "reader", "namespace": namespace}
    await admin.create(
        resources.ROLES,
        {
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
        },
    )
    api_group = "rbac.authorization.k8s.io"
    await admin.create(
        resources.ROLE_BINDINGS,
        {
            "metadata": metadata,
            "roleRef": {"apiGroup": api_group, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "Group", "name": group, "apiGroup": api_group}],
        },
    )
    return group


@pytest.mark.plane
async def test_own_and_others_access(admin: client.Client, namespace: str, reader: str) -> None:
    read = access.Question(verb="get", resource=resources.PODS, namespace=namespace)
    write = access.Question(
        verb="create", resource=resources.PODS, namespace=namespace, subresource="binding"
    )
    view = admin.as_user("alice", [reader])
    for _ in range(500):  # the authorizer hears of a binding by a watch
        if (allowed := await access.can_i(view, read)).allowed:
            break
        await asyncio.sleep(0.02)
    assert allowed.allowed
    assert "reader" in allowed.reason
    assert not (await access.can_i(view, write)).allowed
    assert (await access.can_i(admin, write)).allowed

    assert (await access.can(admin, read, user="alice", groups=[reader])).allowed
    assert not (await access.can(admin, read, user="alice", extra={"a": ["b"]}, uid="u")).allowed


@pytest.mark.plane
async def test_paths_are_asked_about_too(admin: client.Client) -> None:
    metrics = access.Question(verb="get", path="/metrics")
    assert (await access.can_i(admin, metrics)).allowed
    assert not (await access.can(admin, metrics, user="alice")).allowed


@pytest.mark.plane
async def test_who_am_i(admin: client.Client) -> None:
    assert (await access.who_am_i(admin)).username == "admin"
    alice = await access.who_am_i(admin.as_user("alice", ["dev"], extra={"scope": ["a"]}))
    assert alice.username == "alice"
    assert set(alice.groups) == {"dev", "system:authenticated"}
    assert alice.extra["scope"] == ["a"]


@pytest.mark.plane
async def test_foreign_token_is_nobody(admin: client.Client) -> None:
    answer = await access.review_token(admin, "nonsense")
    assert answer.user is None


def test_attributes_leave_out_what_is_any() -> None:
    question = access.Question(verb="list", resource=resources.DEPLOYMENTS)
    assert question.attributes() == {
        "resourceAttributes": {
            "verb": "list",
            "group": "apps",
            "version": "v1",
            "resource": "deployments",
        }
    }
