"""RuleStatus objects, and the metadata that rules keep on what exists (specs/capsule 1.11, 4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .content import pod, put, ready
from .harness import Object, World, eventually, reference

pytestmark = pytest.mark.plane

NAME = "capsule-managed-rules"
MANAGED_REFUSED = "Labeling resources as controller managed can only be done by"


async def shown(world: World, *, ready: str = "True") -> Object:
    """Wait for the RuleStatus whose status is about its specification."""

    async def current() -> Object | None:
        found = await world.admin.get(capsule.RULE_STATUSES, NAME, world.name("prod"))
        status = found["status"]
        assert status["observedGeneration"] == found["metadata"]["generation"]
        assert world.condition(status, "Ready")["status"] == ready
        return found

    found = await eventually(current)
    assert found is not None
    return found


async def test_it_shows_the_rules_that_hold(world: World) -> None:
    holding: Object = {
        "enforce": {"action": "allow", "workloads": {"schedulers": [{"exact": ["{{ .tenant.metadata.name }}"]}]}},
        "audience": [{"kind": "Custom", "name": "TenantOwner"}],
    }  # fmt: skip
    elsewhere = {
        "enforce": {"services": {"types": ["NodePort"]}},
        "namespaceSelector": {"matchLabels": {"env": "test"}},
    }
    tenant = await world.tenant(rules=[holding, elsewhere, {"permissions": {"bindings": []}}])
    await world.namespace()
    found = await shown(world)
    schedulers = [{"exact": [world.name("oil")], "negate": False}]
    rule = {**holding, "enforce": {"action": "allow", "workloads": {"schedulers": schedulers}}}
    assert found["spec"] == [rule]
    assert found["status"]["rules"] == [rule]
    assert world.condition(found["status"], "Ready")["message"] == "reconciled"
    labels = found["metadata"]["labels"]
    assert labels["projectcapsule.dev/managed-by"] == "controller"
    assert labels["projectcapsule.dev/tenant"] == world.name("oil")
    (owner,) = found["metadata"]["ownerReferences"]
    assert owner == reference(tenant, controller=True, blockOwnerDeletion=True)
    # Nobody but the controller writes it, in no way.
    alice, where = world.user(), world.name("prod")
    await world.bound()
    await world.grant(
        world.name("alice"), "create", "delete", "patch",
        what=("rulestatuses/status", "rulestatuses"), group="capsule.clastix.io",
    )  # fmt: skip
    empty: Object = {"status": {"rules": []}}
    for attempt in (
        alice.delete(capsule.RULE_STATUSES, NAME, where),
        alice.patch(capsule.RULE_STATUSES, NAME, where, kind="merge", body={"spec": []}),
        alice.patch(
            capsule.RULE_STATUSES, NAME, where, kind="merge", body=empty, subresource="status"
        ),
    ):
        with pytest.raises(errors.Forbidden, match=MANAGED_REFUSED):
            await attempt
    # The second rule, when the namespace has its label.
    await world.labelled(alice, "prod", env="test")

    async def both() -> bool:
        return len((await shown(world))["status"]["rules"]) == 2

    await eventually(both)
    # Without rules there is nothing to show.
    await world.change(tenant, rules=[])

    async def gone() -> bool:
        return not (await world.admin.list(capsule.RULE_STATUSES, where)).items

    await eventually(gone)


async def test_a_rule_that_cannot_be_filled_is_told(world: World) -> None:
    bad = {"workloads": {"schedulers": [{"exact": ["{{ .tenant.spec.data.nowhere }}"]}]}}
    await world.tenant(rules=[{"enforce": bad}])
    await world.namespace()
    found = await shown(world, ready="False")
    message = world.condition(found["status"], "Ready")["message"]
    assert message.startswith("spec.rules[0]: ")
    assert "map has no entry for key 'data'" in message

    async def told() -> bool:
        ready = world.condition(await world.status(), "Ready")
        return bool(ready["status"] == "False" and message in ready["message"])

    await eventually(told)


async def test_what_exists_gets_and_loses_what_is_kept(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    where = await ready(world)
    own: Any = {"labels": {"team": "mine", "own": "1"}}
    objects = {
        resources.CONFIG_MAPS: {"metadata": {"name": "c", **own}},
        resources.PODS: {**pod("p"), "metadata": {"name": "p", **own}},
        resources.SERVICES: {"metadata": {"name": "s", **own}, "spec": {"ports": [{"port": 80}]}},
        resources.SECRETS: {"metadata": {"name": "x", **own}},
    }
    for resource, obj in objects.items():
        await put(world, resource, obj, dry_run=False)

    async def labels() -> list[Object]:
        found = [
            await world.admin.get(resource, obj["metadata"]["name"], where)
            for resource, obj in objects.items()
        ]
        return [one["metadata"]["labels"] for one in found]

    def marked(value: str) -> list[Object]:
        entry = {"kinds": ["ConfigMap", "Pod"], "labels": {"team": {"managed": value}}}
        return [{"enforce": {"metadata": [entry]}}]

    async def become(*wanted: Object) -> None:
        async def so() -> bool:
            found = await labels()
            assert found == list(wanted)
            return True

        await eventually(so)

    before = own["labels"]
    extra: Object = {"additionalMetadata": {"labels": {"via": "pods"}}}
    services: Object = {"additionalMetadata": {"labels": {"via": "services"}}}
    await world.change(tenant, rules=marked("a"), podOptions=extra, serviceOptions=services)
    red = {"team": "a", "own": "1"}
    await become(red, {**red, "via": "pods"}, {**before, "via": "services"}, before)
    # Objects that only admission has marked lose it like the others.
    late = {**pod("late"), "metadata": {"name": "late", "labels": {"own": "2"}}}
    made = await put(world, resources.PODS, late, dry_run=False)
    assert made["metadata"]["labels"] == {"own": "2", "team": "a", "via": "pods"}
    await world.change(tenant, rules=marked("b"), podOptions=None)
    blue = {"team": "b", "own": "1"}
    await become(blue, blue, {**before, "via": "services"}, before)
    await world.change(tenant, rules=[], serviceOptions=None)
    await become({"own": "1"}, {"own": "1"}, before, before)

    async def clean() -> bool:
        found = await world.admin.get(resources.PODS, "late", where)
        return bool(found["metadata"]["labels"] == {"own": "2"})

    await eventually(clean)


async def test_a_kind_that_the_controller_may_not_touch_is_told(world: World) -> None:
    entries = [
        {"kinds": ["Secret"], "labels": {"team": {"managed": "a"}}},
        {"kinds": ["Unheard"], "apiGroups": ["x.io/v1"], "labels": {"team": {"managed": "a"}}},
    ]
    await world.tenant(rules=[{"enforce": {"metadata": entries}}])
    await world.namespace()
    message = world.condition((await shown(world, ready="False"))["status"], "Ready")["message"]
    assert "to let rules keep metadata of secrets, give a ClusterRole" in message
    assert "kinds: Invalid value: 'Unheard'" in message
