"""Policies from memory: no call when warm, one when memory has not heard of something."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api import admission as wire
from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.apps import evidence, policies
from tenantry.directory import state as directory
from tenantry.kube import errors
from tenantry.runtime import admission
from tenantry.tenancy import state
from tenantry.tenancy.admission import pods
from tenantry.tenancy.policy import classes

CONTROLLER = "system:serviceaccount:capsule-system:capsule"


class Informer:
    """A cache that a test fills."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def subscribe(self, _: object) -> None: ...

    def add_index(self, *_: object) -> None: ...

    def get(self, name: str, _: str = "") -> Any:
        return self.known.get(name)

    def by_index(self, *_: object) -> list[Any]:
        return []


class Cluster:
    """What is stored, what memory knows of it, and what was asked."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], bytes] = {}
        self.asked: list[str] = []
        self.client = self
        self.informers: dict[str, Informer] = {}
        self.directory = directory.Directory([CONTROLLER], "default")
        self.namespaces = self.tenants = Informer()

    def informer(self, resource: resources.Resource, *_: object, **__: object) -> Informer:
        return self.informers.setdefault(resource.plural, Informer())

    async def get(
        self, resource: resources.Resource, name: str, namespace: str = "", *, decode: Any
    ) -> Any:
        self.asked.append(f"get {resource.plural} {name}")
        found = self.stored.get((resource.plural, name))
        if found is None:
            raise errors.from_response(404, b"")
        return decode(found)

    def store(self, resource: resources.Resource, obj: dict[str, Any]) -> bytes:
        raw = msgspec.json.encode(obj)
        self.stored[resource.plural, obj["metadata"]["name"]] = raw
        return raw

    def remember(self) -> None:
        """Let the watches tell everything."""
        for resource in policies.CLASSES.values():
            self.informer(resource)
        for (plural, name), raw in self.stored.items():
            if plural == "namespaces":
                self.directory.namespace_changed(name, directory.namespace_view(raw))
            elif plural == "tenants":
                self.directory.tenant_changed(name, state.tenant_view(raw).tenant)
            else:
                self.informers[plural].known[name] = classes.view(raw)


TENANT = {
    "metadata": {"name": "oil", "uid": "u1", "generation": 1},
    "spec": {
        "owners": [{"kind": "User", "name": "alice"}],
        "containerRegistries": {"allowed": ["r.io"]},
        "priorityClasses": {"matchLabels": {"tier": "gold"}},
    },
}
NAMESPACE = {
    "metadata": {
        "name": "prod",
        "labels": {"capsule.clastix.io/tenant": "oil"},
        "ownerReferences": [
            {
                "apiVersion": "capsule.clastix.io/v1beta2",
                "kind": "Tenant",
                "name": "oil",
                "uid": "u1",
            }
        ],
    }
}
GOLD = {"metadata": {"name": "gold", "labels": {"tier": "gold"}}, "value": 1}


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.store(capsule.TENANTS, TENANT)
    found.store(resources.NAMESPACES, NAMESPACE)
    found.store(resources.PRIORITY_CLASSES, GOLD)
    return found


async def judged(cluster: Any, image: str, priority: str = "", user: str = "x") -> str:
    gather = evidence.Gatherer(
        cluster, cluster, frozenset([CONTROLLER]), policies.Policies(cluster, cluster)
    )
    spec = {"containers": [{"name": "c", "image": image}], "priorityClassName": priority}
    review = admission.Review(
        uid="r", operation="CREATE", resource="pods", kind="Pod", namespace="prod", name="p",
        user=wire.UserInfo(username=user), object={"metadata": {"name": "p"}, "spec": spec},
    )  # fmt: skip
    decision = pods.validate(review, await gather(review))
    return decision.message if isinstance(decision, admission.Deny) else ""


async def test_a_warm_replica_asks_nothing(cluster: Cluster) -> None:
    cluster.remember()
    assert await judged(cluster, "r.io/a", "gold") == ""
    assert "registry is forbidden" in await judged(cluster, "e.io/a")
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("labels", "asked"),
    [({}, []), ({"owner.projectcapsule.dev/promote": "true"}, ["get tenants oil"])],
)
async def test_owners_are_read_for_promotions_alone(
    cluster: Any, labels: dict[str, str], asked: list[str]
) -> None:
    """Each namespace gets a ServiceAccount of Kubernetes' own, which concerns nobody."""
    cluster.remember()
    gather = evidence.Gatherer(cluster, cluster, frozenset([CONTROLLER]))
    review = admission.Review(
        uid="r", operation="CREATE", resource="serviceaccounts", kind="ServiceAccount",
        namespace="prod", name="default", user=wire.UserInfo(username="x"),
        object={"metadata": {"name": "default", "labels": labels}},
    )  # fmt: skip
    await gather(review)
    assert cluster.asked == asked


async def test_the_first_pod_of_a_tenant_that_the_watches_have_not_told_of(
    cluster: Cluster,
) -> None:
    assert "registry is forbidden" in await judged(cluster, "e.io/a")
    assert cluster.asked == ["get namespaces prod", "get tenants oil"]
    cluster.asked.clear()
    assert await judged(cluster, "r.io/a", "gold") == ""
    assert cluster.asked == ["get namespaces prod", "get tenants oil", "get priorityclasses gold"]


async def test_a_namespace_that_joined_a_tenant_without_the_watches_telling(
    cluster: Cluster,
) -> None:
    cluster.remember()
    plain = {"metadata": {"name": "prod"}}
    cluster.directory.namespace_changed(
        "prod", directory.namespace_view(msgspec.json.encode(plain))
    )
    assert "registry is forbidden" in await judged(cluster, "e.io/a")
    # Memory is behind, so what it knows of the tenant may be as old.
    assert cluster.asked == ["get namespaces prod", "get tenants oil"]


async def test_rules_older_than_the_first_namespace_are_not_the_rules(cluster: Cluster) -> None:
    cluster.remember()
    cluster.directory.namespace_changed("prod", None)
    metadata = {"name": "oil", "uid": "u1", "generation": 2}
    stricter = {"metadata": metadata, "spec": {"containerRegistries": {"allowed": ["s.io"]}}}
    cluster.store(capsule.TENANTS, stricter)
    assert "registry is forbidden" in await judged(cluster, "r.io/a")


async def test_a_namespace_that_was_ending_may_be_another_by_now(cluster: Cluster) -> None:
    cluster.remember()
    ending = {"metadata": {"name": "prod", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    cluster.directory.namespace_changed(
        "prod", directory.namespace_view(msgspec.json.encode(ending))
    )
    assert "registry is forbidden" in await judged(cluster, "e.io/a")


async def test_a_class_that_does_not_exist_is_looked_for_once(cluster: Cluster) -> None:
    cluster.remember()
    assert "Priority Class ghost is forbidden" in await judged(cluster, "r.io/a", "ghost")
    assert cluster.asked == ["get priorityclasses ghost"]


async def test_a_namespace_of_nobody_has_no_policy(cluster: Cluster) -> None:
    cluster.store(resources.NAMESPACES, {"metadata": {"name": "prod"}})
    assert await judged(cluster, "e.io/a") == ""
