"""Labels and annotations by rule and by the deprecated fields, and audits (specs/capsule 1.2, 5.8)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import errors, reads

from .content import in_force, pod, put, ready
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

SELECTOR = constants.NODE_SELECTOR_ANNOTATION


def labelled(**labels: str) -> Object:
    return {"metadata": {"name": "c", "labels": labels}}


async def test_rules(world: World) -> None:
    wanted = [
        {"kinds": ["ConfigMap"], "labels": {
            "team": {"required": True, "values": [{"exact": ["a", "b"]}]},
            "tier": {"default": "bronze"},
            "cost/center": {"managed": "{{ .tenant.spec.data.cost }}-{{ .namespace.metadata.name }}"},
        }},
    ]  # fmt: skip
    denied = [
        {"kinds": ["*"], "apiGroups": ["*"], "annotations": {"x.io/*": {}}},
    ]
    await world.tenant(
        data={"cost": "cc-7"},
        rules=[
            {"enforce": {"action": "allow", "metadata": wanted}},
            {"enforce": {"action": "deny", "metadata": denied}},
        ],
    )
    await world.namespace()

    async def asked() -> bool:
        """Wait until the API server asks about everything that this tenant writes."""
        with contextlib.suppress(errors.Forbidden):
            await put(world, resources.CONFIG_MAPS, {"metadata": {"name": "d"}})
            return False
        found = await put(world, resources.CONFIG_MAPS, labelled(team="a"))
        return "tier" in found["metadata"]["labels"]

    await eventually(asked)
    made = await put(world, resources.CONFIG_MAPS, labelled(team="a"), dry_run=False)
    labels = {"team": "a", "tier": "bronze", "cost/center": f"cc-7-{world.name('prod')}"}
    assert made["metadata"]["labels"] == labels
    await refused(
        put(world, resources.CONFIG_MAPS, {"metadata": {"name": "d"}}),
        'metadata label "team" is required at metadata.labels["team"]',
    )
    listed = (
        "is not allowed by namespace rule: value did not match any allowed rule. "
        "Allowed metadata values: exact: a, b"
    )
    words = f'metadata label "c" at metadata.labels["team"] {listed}'
    await refused(put(world, resources.CONFIG_MAPS, labelled(team="c")), words)
    where = world.name("prod")

    async def patched(**labels: str | None) -> Object:
        body: Object = {"metadata": {"labels": labels}}
        return await world.admin.patch(resources.CONFIG_MAPS, "c", where, kind="merge", body=body)

    await refused(patched(team="c"), words)
    await refused(
        patched(team=None), 'metadata label "team" is required at metadata.labels["team"]'
    )
    # What is managed is nobody else's.
    again = await patched(**{"cost/center": "mine", "tier": None})
    assert again["metadata"]["labels"] == labels
    secret = {"metadata": {"name": "s", "annotations": {"x.io/y": "1"}}}
    await refused(
        put(world, resources.SECRETS, secret),
        'metadata annotation "1" at metadata.annotations["x.io/y"] is denied by namespace rule: '
        "matched denied rule any value",
    )
    deployment: Object = {
        "metadata": {"name": "d", "annotations": {"x.io/y": "1"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "r.io/a"}]},
            },
        },
    }
    await refused(
        put(world, resources.DEPLOYMENTS, deployment),
        'metadata annotation "1" at metadata.annotations["x.io/y"] is denied by namespace rule: '
        "matched denied rule any value",
    )
    # What the cluster needs in each namespace is there.
    await ready(world)
    await in_force(world)


async def test_namespaces_themselves(world: World) -> None:
    entry = {"kinds": ["Namespace"], "labels": {
        "team": {"required": True, "values": [{"exact": ["a", "b"]}]},
        "tier": {"default": "bronze"},
        "owner": {"managed": "{{ .tenant.metadata.name }}"},
    }}  # fmt: skip
    tenant = await world.tenant(rules=[{"enforce": {"action": "allow", "metadata": [entry]}}])
    await refused(world.namespace(), 'metadata label "team" is required at metadata.labels["team"]')
    words = (
        'metadata label "c" at metadata.labels["team"] is not allowed by namespace rule: value did '
        "not match any allowed rule. Allowed metadata values: exact: a, b"
    )
    await refused(world.namespace(labels={"team": "c"}), words)
    made = (await world.namespace(labels={"team": "a", "owner": "me"}))["metadata"]["labels"]
    assert (made["team"], made["tier"], made["owner"]) == ("a", "bronze", world.name("oil"))
    await refused(world.labelled(world.user(), "prod", team="c"), words)
    again = await world.labelled(world.user(), "prod", owner="me", tier="gold")
    labels = again["metadata"]["labels"]
    assert (labels["owner"], labels["tier"]) == (world.name("oil"), "gold")
    # What is managed goes with its rule.
    await world.change(tenant, rules=[])

    async def gone() -> bool:
        return "owner" not in (await world.stored())["metadata"]["labels"]

    await eventually(gone)


async def test_what_the_controller_had_not_seen_goes_with_its_rule(world: World) -> None:
    """Admission has written it, in alice's name, and nothing else says who it was."""
    options: Object = {"additionalMetadata": {"labels": {"team": "a"}}}
    tenant = await world.tenant(namespaceOptions=options, nodeSelector={"pool": "old"})
    await in_force(world)
    with world.tenancy.controller.paused():
        made = (await world.namespace(labels={"own": "1"}))["metadata"]
        assert made["labels"]["team"] == "a"
        assert made["annotations"][SELECTOR] == "pool=old"
        await world.change(tenant, namespaceOptions=None, nodeSelector=None)

    async def gone() -> bool:
        found = (await world.stored())["metadata"]
        assert found["labels"]["own"] == "1"
        return "team" not in found["labels"] and SELECTOR not in found.get("annotations", {})

    await eventually(gone)


async def test_nothing_but_what_the_tenant_says(world: World) -> None:
    options: Object = {
        "managedMetadataOnly": True,
        "additionalMetadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
    }
    tenant = await world.tenant(namespaceOptions=options)
    mine: Any = {"labels": {"own": "1"}, "annotations": {"own": "2"}}
    made = (await world.namespace(**mine))["metadata"]
    kept = {
        "team": "a",
        "capsule.clastix.io/tenant": world.name("oil"),
        "kubernetes.io/metadata.name": world.name("prod"),
    }
    assert (made["labels"], made["annotations"]) == (kept, {"x": "y"})
    # What somebody adds past the webhook goes, too, once the tenant says so.
    await world.change(tenant, namespaceOptions={"managedMetadataOnly": None})

    async def lenient() -> bool:
        again = await world.labelled(world.boss(), "prod", own="1")
        return bool(again["metadata"]["labels"].get("own") == "1")

    await eventually(lenient)
    await world.change(tenant, namespaceOptions={"managedMetadataOnly": True})

    async def cleared() -> bool:
        return bool((await world.stored())["metadata"]["labels"] == kept)

    await eventually(cleared)
    await in_force(world)


async def test_the_deprecated_fields(world: World) -> None:
    extra: Object = {"labels": {"l": "1"}, "annotations": {"a": "2"}}
    await world.tenant(
        podOptions={"additionalMetadata": extra}, serviceOptions={"additionalMetadata": extra}
    )
    await world.namespace()
    await ready(world)
    service: Object = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    for resource, obj in ((resources.PODS, pod("p")), (resources.SERVICES, service)):
        metadata = (await put(world, resource, obj))["metadata"]
        assert (metadata["labels"], metadata["annotations"]) == ({"l": "1"}, {"a": "2"})
    config = (await put(world, resources.CONFIG_MAPS, labelled(a="b")))["metadata"]
    assert config["labels"] == {"a": "b"}
    await in_force(world)


async def told(world: World, reason: str, note: str) -> Object:
    """Wait for an event of this test's."""

    async def there() -> Object | None:
        events = [reads.to_dict(bytes(one)) for one in (
            await world.admin.list(resources.EVENTS, "default")
        ).items]  # fmt: skip
        mine = [one for one in events if one.get("reason") == reason]
        return next((one for one in mine if one["note"].endswith(note)), None)

    event = await eventually(there)
    assert event is not None
    return event


async def test_audits_are_told_and_refuse_nothing(world: World) -> None:
    entry = {"kinds": ["Namespace"], "labels": {"team": {"values": [{"exact": ["a"]}]}}}
    rules: list[Any] = [
        {"enforce": {"action": "audit", "workloads": {"registries": [{"exp": "^e[.]io/"}]}}},
        {"enforce": {"action": "audit", "metadata": [entry]}},
    ]
    tenant = await world.tenant(
        rules=rules, containerRegistries={"allowed": ["e.io", "f.io", "g.io"]}
    )
    await world.namespace(labels={"team": "a"})
    await ready(world)
    await put(world, resources.PODS, pod("p", "e.io/x"), dry_run=False)
    event = await told(
        world,
        "NamespaceRuleAudit",
        f'Pod {world.name("prod")}/p: registry "e.io/x" at containers[0] matched audit registry '
        "rule exp: ^e[.]io/",
    )
    assert event["action"] == "RuleAudit"
    assert event["reportingController"] == "controller.projectcapsule.dev"
    assert event["regarding"]["uid"] == tenant["metadata"]["uid"]
    annotations = event["metadata"]["annotations"]
    assert annotations["audit.projectcapsule.dev/rule-set"] == "registry"
    assert annotations["audit.projectcapsule.dev/rule-action"] == "audit"
    assert annotations["audit.projectcapsule.dev/username"]
    assert annotations["audit.projectcapsule.dev/request-uid"]
    # Of a namespace, at its tenant while it may never exist, then at itself.
    words = (
        f'Namespace {world.name("prod")}: metadata label "a" at metadata.labels["team"] matched '
        "audit namespace rule exact: a"
    )
    event = await told(world, "NamespaceRuleAudit", words)
    assert event["regarding"]["kind"] == "Tenant"
    assert event["regarding"]["uid"] == tenant["metadata"]["uid"]
    assert event["metadata"]["annotations"]["audit.projectcapsule.dev/rule-set"] == "metadata label"
    # Refusals about images say whether a registry was written at all.
    listed = "use one from the following list (e.io, f.io, g.io)"
    for image, reason, words in (
        ("nginx", "MissingFQCI",
         "is not fully qualified, so its registry is not known, which is forbidden"),
        ("h.io/x", "ForbiddenContainerRegistry", "registry is forbidden"),
    ):  # fmt: skip
        message = f"Container image {image} {words} for the current Tenant: {listed}"
        await refused(put(world, resources.PODS, pod("q", image), dry_run=False), message)
        await told(world, reason, message)


async def test_rules_that_mean_nothing_are_refused(world: World) -> None:
    bad: list[tuple[Object, str]] = [
        ({"workloads": {"registries": [{"exp": "("}]}},
         'spec.rules[0].enforce.workloads.registries[0].exp: Invalid value: "(": must be a valid '
         "RE2 regular expression"),
        ({"workloads": {"qosClasses": ["Best"]}}, "enforce.workloads.qosClasses[0]: Unsupported"),
        ({"workloads": {"targets": ["pod"], "registries": [{"exp": "a"}]}}, "enforce.workloads.targets"),
        ({"services": {"loadBalancers": {"cidrs": ["nowhere"]}}}, "must be an address or a network"),
        ({"services": {"nodePorts": {"ports": [{"from": 2, "to": 1}]}}}, "from must not be above to"),
        ({"metadata": [{"kinds": ["Pod"], "labels": {"a": {"default": "{{ .x"}}}]}, "line 1:"),
        ({"metadata": [{"kinds": ["Pod"], "labels": {"a*": {"default": "x"}}}]}, "one key"),
        ({"metadata": [{"kinds": ["*"], "labels": {"a": {"managed": "x"}}}]}, "concrete"),
        ({"metadata": [{"kinds": ["Node"], "labels": {"a": {}}}]}, "is no kind of v1 that namespaces"),
    ]  # fmt: skip
    for enforce, words in bad:
        with pytest.raises(Exception, match=r"spec[.]rules") as caught:
            await world.tenant(rules=[{"enforce": enforce}])
        assert words in str(caught.value)
    with pytest.raises(Exception, match="must be one of CapsuleUser, Administrator"):
        await world.tenant(
            rules=[{"audience": [{"kind": "Custom", "name": "Everybody"}], "enforce": {}}]
        )


async def test_what_wears_out_the_webhook_is_refused(world: World) -> None:
    """Rules by the thousand, and objects of a megabyte against a few."""
    rule: Object = {"enforce": {"action": "audit", "services": {"types": ["NodePort"]}}}
    await refused(
        world.tenant(rules=[rule] * 10_000),
        "spec.rules: Too many: 10000: must have at most 500 items",
    )
    keys = [{"kinds": ["Pod"], "annotations": {f"x{n}.*": {}}} for n in range(3)]
    await world.tenant(rules=[{"enforce": {"metadata": keys}}])
    await world.namespace()
    await ready(world)
    many = {f"a{n}": "" for n in range(20_000)}
    await refused(
        put(world, resources.PODS, {**pod("p"), "metadata": {"name": "p", "annotations": many}}),
        "the object holds more values than can be compared with the rules of its Tenant (more than "
        "30000 comparisons); please, split it, or reach out to the system administrators",
    )
    # Size alone is no harm.
    large = {**pod("p"), "metadata": {"name": "p", "annotations": {"a": "x" * 200_000}}}
    large["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 700_000}]
    await put(world, resources.PODS, large)
