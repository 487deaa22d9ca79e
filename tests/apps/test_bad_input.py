"""Objects that make no sense are refused, with what would be accepted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import tenantry.deploy
from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import CAPSULE_USERS, Object, World, eventually

pytestmark = pytest.mark.plane

CRDS = Path(tenantry.deploy.__path__[0]) / "crds"


def manifest(world: World, **spec: Any) -> str:
    body = {
        "apiVersion": constants.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": world.name("oil")},
        "spec": spec,
    }
    return json.dumps(body)


async def test_unknown_fields(world: World) -> None:
    plane = world.tenancy.plane
    text = manifest(world, ownrs=[], namespaceOptions={"quotas": 3})
    done = plane.run("apply", "-f", "-", stdin=text, check=False)
    assert done.returncode == 1
    assert 'unknown field "spec.ownrs"' in done.stderr
    assert 'unknown field "spec.namespaceOptions.quotas"' in done.stderr
    # Who insists gets the object without them.
    plane.run("apply", "--validate=false", "-f", "-", stdin=text)
    found = await world.admin.get(capsule.TENANTS, world.name("oil"))
    assert "ownrs" not in found["spec"]


def enforced(**said: Any) -> Object:
    return {"rules": [{"enforce": said}]}


NEAR: Object = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
OPTIONS = "spec.namespaceOptions"
WORKLOADS = "spec.rules[0].enforce.workloads"
SERVICES = "spec.rules[0].enforce.services"
#: What each field can not be beside another type, and what the refusal names.
MALFORMED: list[tuple[Object, str]] = [
    ({"owners": "alice"}, "spec.owners"),
    ({"owners": [{"kind": "Robot", "name": "x"}]}, "spec.owners[0].kind"),
    ({"owners": [{"kind": "User"}]}, "spec.owners[0].name"),
    ({"owners": [{"kind": "User", "name": "x", "clusterRoles": ["a/b"]}]},
     "spec.owners[0].clusterRoles[0]"),
    ({"owners": [{"kind": "User", "name": "x", "labels": {"a": "b c"}}]},
     "spec.owners[0].labels[a]"),
    ({"owners": [{"kind": "User", "name": "x", "annotations": {"a b": ""}}]},
     "spec.owners[0].annotations"),
    ({"owners": [{"kind": "User", "name": "x", "proxySettings": [
        {"kind": "Pods", "operations": ["List"]}]}]}, "spec.owners[0].proxySettings[0].kind"),
    ({"permissions": {"matchOwners": [NEAR]}}, "spec.permissions.matchOwners[0]"),
    ({"namespaceOptions": {"quota": "three"}}, f"{OPTIONS}.quota"),
    ({"namespaceOptions": {"quota": 0}}, f"{OPTIONS}.quota"),
    ({"namespaceOptions": {"quota": -1}}, f"{OPTIONS}.quota"),
    ({"namespaceOptions": {"nameTemplate": "dev"}}, f"{OPTIONS}.nameTemplate"),
    ({"namespaceOptions": {"additionalMetadata": {"labels": {"a": "b c"}}}},
     f"{OPTIONS}.additionalMetadata.labels[a]"),
    ({"namespaceOptions": {"additionalMetadataList": [{"annotations": {"a": "{{pod}}"}}]}},
     f"{OPTIONS}.additionalMetadataList[0].annotations[a]"),
    ({"namespaceOptions": {"additionalMetadataList": [{"namespaceSelector": NEAR}]}},
     f"{OPTIONS}.additionalMetadataList[0].namespaceSelector"),
    ({"nodeSelector": ["pool=gpu"]}, "spec.nodeSelector"),
    ({"nodeSelector": {"pool": "a,b"}}, "spec.nodeSelector[pool]"),
    ({"cordoned": "yes"}, "spec.cordoned"),
    ({"preventDeletion": "yes"}, "spec.preventDeletion"),
    ({"forceTenantPrefix": "yes"}, "spec.forceTenantPrefix"),
    ({"additionalRoleBindings": [{"clusterRoleName": "view"}]}, "subjects"),
    ({"additionalRoleBindings": [{"clusterRoleName": "view", "subjects": []}]}, "subjects"),
    ({"imagePullPolicies": ["Sometimes"]}, "spec.imagePullPolicies[0]"),
    ({"containerRegistries": {"allowedRegex": "("}}, "containerRegistries"),
    ({"serviceOptions": {"externalIPs": {"allowed": ["everywhere"]}}},
     "spec.serviceOptions.externalIPs.allowed[0]"),
    ({"serviceOptions": {"externalIPs": {}}}, "spec.serviceOptions.externalIPs.allowed"),
    ({"serviceOptions": {"forbiddenLabels": {"deniedRegex": "("}}}, "for forbidden labels"),
    ({"serviceOptions": {"forbiddenAnnotations": {"deniedRegex": "("}}}, "forbidden annotations"),
    ({"serviceOptions": {"additionalMetadata": {"labels": {"a": "b c"}}}},
     "spec.serviceOptions.additionalMetadata.labels[a]"),
    ({"podOptions": {"additionalMetadata": {"labels": {"a": "b c"}}}},
     "spec.podOptions.additionalMetadata.labels[a]"),
    *(({field: {"allowedRegex": "("}}, field) for field in (
        "storageClasses", "runtimeClasses", "priorityClasses", "deviceClasses")),
    *(({field: NEAR}, field) for field in (
        "storageClasses", "runtimeClasses", "priorityClasses", "deviceClasses")),
    ({"gatewayOptions": {"allowedClasses": {"allowedRegex": "("}}}, "gateway"),
    ({"gatewayOptions": {"allowedClasses": NEAR}}, "spec.gatewayOptions.allowedClasses"),
    ({"ingressOptions": {"allowedClasses": {"allowedRegex": "("}}}, "ingress"),
    ({"ingressOptions": {"allowedClasses": NEAR}}, "spec.ingressOptions.allowedClasses"),
    ({"ingressOptions": {"allowedHostnames": {"allowedRegex": "("}}}, "allowedHostnames"),
    ({"ingressOptions": {"hostnameCollisionScope": "World"}},
     "spec.ingressOptions.hostnameCollisionScope"),
    ({"limitRanges": {"items": [{}]}}, "spec.limitRanges.items[0].limits"),
    ({"networkPolicies": {"items": [{"podSelector": {}, "policyTypes": "Ingress"}]}},
     "spec.networkPolicies.items[0].policyTypes"),
    ({"rules": [{"namespaceSelector": NEAR}]}, "spec.rules[0].namespaceSelector"),
    ({"rules": [{"audience": [{"kind": "Robot", "name": "x"}]}]}, "spec.rules[0].audience[0].kind"),
    ({"rules": [{"permissions": {"bindings": [{"clusterRoleName": "view", "subjects": []}]}}]},
     "spec.rules[0].permissions.bindings[0].subjects"),
    ({"rules": [{"permissions": {"promotions": [{"clusterRoles": ["view"], "selector": NEAR}]}}]},
     "spec.rules[0].permissions.promotions[0].selector"),
    (enforced(action="warn"), "spec.rules[0].enforce.action"),
    (enforced(workloads={"targets": ["node"]}), f"{WORKLOADS}.targets[0]"),
    (enforced(workloads={"registries": [{"negate": True}]}), f"{WORKLOADS}.registries[0]"),
    (enforced(workloads={"registries": [{"exact": ["a"], "policy": ["Sometimes"]}]}),
     f"{WORKLOADS}.registries[0].policy"),
    (enforced(workloads={"schedulers": [{"exact": []}]}), f"{WORKLOADS}.schedulers[0]"),
    (enforced(workloads={"qosClasses": ["Best"]}), f"{WORKLOADS}.qosClasses[0]"),
    (enforced(workloads={"tolerations": [{"exp": "("}]}), f"{WORKLOADS}.tolerations[0].exp"),
    (enforced(workloads={"nodeSelectors": [{"exp": "("}]}), f"{WORKLOADS}.nodeSelectors[0].exp"),
    (enforced(workloads={"resources": {}}), f"{WORKLOADS}.resources"),
    (enforced(workloads={"resources": {"requests": {"cpu": {"policy": "Ratio"}}}}),
     f"{WORKLOADS}.resources.requests.cpu.policy"),
    (enforced(workloads={"resources": {"limits": {"cpu": {"policy": "Default"}}}}),
     f"{WORKLOADS}.resources.limits[cpu]"),
    (enforced(services={"types": ["Headless"]}), f"{SERVICES}.types[0]"),
    (enforced(services={"loadBalancers": {"cidrs": ["x"]}}), f"{SERVICES}.loadBalancers.cidrs[0]"),
    (enforced(services={"externalNames": {"hostnames": [{"exp": "("}]}}),
     f"{SERVICES}.externalNames.hostnames[0].exp"),
    (enforced(services={"nodePorts": {"ports": [{"from": 0, "to": 1}]}}),
     f"{SERVICES}.nodePorts.ports[0].from"),
    (enforced(ingress={"types": [], "hostnames": [{"exact": ["a.io"]}]}),
     "spec.rules[0].enforce.ingress.types"),
    (enforced(ingress={"types": ["Ingress"], "hostnames": []}),
     "spec.rules[0].enforce.ingress.hostnames"),
    (enforced(metadata=[{"kinds": [], "labels": {"a": {}}}]),
     "spec.rules[0].enforce.metadata[0].kinds"),
    (enforced(metadata=[{"kinds": ["Pod"]}]), "spec.rules[0].enforce.metadata[0]"),
    (enforced(metadata=[{"kinds": ["Pod"], "labels": {"a": {"values": [{"exp": "("}]}}}]),
     "spec.rules[0].enforce.metadata[0].labels[a].values[0].exp"),
    (enforced(metadata=[{"kinds": ["Pod"], "annotations": {"a*": {"managed": "b"}}}]),
     "spec.rules[0].enforce.metadata[0].annotations[a*].managed"),
]  # fmt: skip


async def test_malformed_fields(world: World) -> None:
    async def said(spec: Object) -> str:
        body = {"metadata": {"name": world.name("oil")}, "spec": spec}
        try:
            await world.admin.create(capsule.TENANTS, body, dry_run=True)
        except (errors.Invalid, errors.Forbidden) as problem:
            return problem.message
        return ""

    answers = await asyncio.gather(*(said(spec) for spec, _ in MALFORMED))
    wrong = [
        (spec, field, answer)
        for (spec, field), answer in zip(MALFORMED, answers, strict=True)
        if field not in answer
    ]
    assert not wrong, "\n".join(map(str, wrong))


WRONG = {"string": 7, "integer": "x", "boolean": "x"}


def nothing_right(schema: Object, path: str, fields: set[str]) -> Any:
    """Return a value of which every leaf has a wrong type; tell the paths of these."""
    if schema.get("properties"):
        return {
            name: nothing_right(one, f"{path}.{name}", fields)
            for name, one in schema["properties"].items()
            if not one.get("x-kubernetes-preserve-unknown-fields")
        }
    if "items" in schema:
        return [nothing_right(schema["items"], f"{path}[0]", fields)]
    if isinstance(schema.get("additionalProperties"), dict):
        return {"x": nothing_right(schema["additionalProperties"], f"{path}.x", fields)}
    fields.add(path)
    return WRONG.get(schema.get("type", ""), [])


@pytest.mark.parametrize(
    "kind",
    [
        capsule.TENANTS,
        capsule.TENANT_OWNERS,
        capsule.CONFIGURATIONS,
        capsule.RULE_STATUSES,
    ],
    ids=lambda kind: kind.plural,
)
async def test_every_field_refuses_what_it_can_not_be(
    world: World, kind: resources.Resource
) -> None:
    definition = yaml.safe_load((CRDS / f"{kind.group}_{kind.plural}.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields: set[str] = set()
    spec = nothing_right(schema, "spec", fields)
    metadata = {"name": world.name("x"), **({"namespace": "default"} if kind.namespaced else {})}
    with pytest.raises(errors.Invalid) as caught:
        await world.admin.create(kind, {"metadata": metadata, "spec": spec}, dry_run=True)
    assert fields - {cause.field for cause in caught.value.details.causes or ()} == set()


@pytest.mark.parametrize("expression", ["(", "[a-", "(?=ahead)", "\\1", "a" * 5000])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("forbiddenLabels.deniedRegex", "for forbidden labels: "),
        ("forbiddenAnnotations.deniedRegex", "for forbidden annotations: "),
        ("requiredMetadata.labels.cost", "unable to compile"),
    ],
)
async def test_invalid_regular_expressions(
    world: World, path: str, words: str, expression: str
) -> None:
    spec: Any = expression
    for part in reversed(path.split(".")):
        spec = {part: spec}
    with pytest.raises(errors.Forbidden) as caught:
        await world.tenant(namespaceOptions=spec)
    assert words in caught.value.message
    assert len(caught.value.message) < 1500


async def test_an_invalid_expression_in_the_configuration(world: World) -> None:
    with pytest.raises(errors.ApiError) as caught:
        async with world.configured(protectedNamespaceRegex="("):
            pass
    words = 'spec.protectedNamespaceRegex "(" is not a valid regular expression: '
    assert words in caught.value.message


async def test_roles_and_identities_of_the_configuration_that_cannot_be(world: World) -> None:
    with pytest.raises(errors.ApiError) as caught:
        async with world.configured(impersonation={"globalDefaultServiceAccount": "a"}):
            pass
    assert "spec.impersonation: globalDefaultServiceAccount and " in caught.value.message
    said: Object
    for said, words in (
        ({"events": {"namespace": "A b"}}, 'spec.events.namespace: Invalid value: "A b": must be'),
        ({"cacheInvalidation": "often"}, 'spec.cacheInvalidation: Invalid value: "often": must be'),
        ({"users": [{"kind": "Robot", "name": "x"}]}, "spec.users[0].kind"),
        ({"users": [{"kind": "ServiceAccount", "name": "x"}]}, "spec.users[0].name"),
        ({"administrators": [{"kind": "User", "name": ""}]}, "spec.administrators[0].name"),
        ({"protectedNamespaceRegex": "("}, "spec.protectedNamespaceRegex"),
        ({"nodeMetadata": {"forbiddenLabels": {"deniedRegex": "("}}}, "forbiddenLabels"),
        ({"nodeMetadata": {"forbiddenAnnotations": {"deniedRegex": "("}}}, "forbiddenAnnotations"),
    ):
        with pytest.raises(errors.ApiError) as caught:
            await world._configure(said)
        assert words in caught.value.message
    rbac: Object
    for rbac, words in (
        (
            {"promotionClusterRoles": ["view", "a/b"]},
            'promotionClusterRoles[1]: Invalid value: "a/b"',
        ),
        ({"administrationClusterRoles": [""]}, 'administrationClusterRoles[0]: Invalid value: ""'),
        ({"provisioner": "a/b"}, 'provisioner: Invalid value: "a/b"'),
        ({"deleter": "x", "provisioner": "x"}, 'deleter: Invalid value: "x": must differ'),
    ):
        with pytest.raises(errors.ApiError) as caught:
            async with world.configured(rbac=rbac):
                pass
        assert f"spec.rbac.{words}" in caught.value.message
        assert caught.value.code == 403


async def test_a_duplicate_owner_is_warned_about_and_merged(world: World) -> None:
    alice = world.owner("alice", clusterRoles=["view"])
    again = world.owner("alice", clusterRoles=["edit"])
    text = manifest(world, owners=[alice, world.owner("bob"), again])
    done = world.tenancy.plane.run("apply", "-f", "-", stdin=text)
    assert (
        f'Warning: spec.owners[2]: Duplicate value: User "{world.name("alice")}" '
        "is also spec.owners[0]; their cluster roles are merged" in done.stderr
    )
    await world.namespace()

    async def merged() -> bool:
        granted = await world.granted()
        return {role for role, who in granted if who == world.name("alice")} == {"view", "edit"}

    await eventually(merged)

    async def listed() -> bool:
        owners = [o for o in (await world.status())["owners"] if o["name"] == world.name("alice")]
        return [owner["clusterRoles"] for owner in owners] == [["view", "edit"]]

    await eventually(listed)


async def test_names_that_are_too_long(world: World) -> None:
    longest = (world.name("oil-") + "x" * 63)[:63]
    owner = {"spec": {"owners": [world.owner()]}}
    with pytest.raises(errors.ApiError, match="more than 63"):
        await world.admin.create(capsule.TENANTS, {"metadata": {"name": longest + "x"}, **owner})
    await world.admin.create(capsule.TENANTS, {"metadata": {"name": longest}, **owner})
    alice = world.user()
    with pytest.raises(errors.Invalid):
        await alice.create(resources.NAMESPACES, {"metadata": {"name": "n" * 64}})
    name = (world.name("ns-") + "x" * 63)[:63]
    made = await alice.create(resources.NAMESPACES, {"metadata": {"name": name}})
    assert made["metadata"]["labels"][constants.TENANT_LABEL] == longest


@pytest.mark.parametrize("rest", ["a.b", "A", "-", "ä", "a_b"])
async def test_names_that_are_no_labels(world: World, rest: str) -> None:
    with pytest.raises(errors.ApiError):
        await world.tenant(rest)


@pytest.mark.parametrize("name", ["robot", "system:serviceaccount:x", "ns:robot", ""])
async def test_service_accounts_go_by_their_user_name(world: World, name: str) -> None:
    subject = {"kind": "ServiceAccount", "name": name}
    words = "system:serviceaccount:<namespace>:<name>"
    with pytest.raises(errors.ApiError, match=words):
        await world.tenant(owners=[subject])
    with pytest.raises(errors.ApiError, match=words):
        body = {"metadata": {"name": world.name("x")}, "spec": subject}
        await world.admin.create(capsule.TENANT_OWNERS, body)
    for field in ("users", "administrators"):
        with pytest.raises(errors.ApiError, match=words):
            async with world.configured(**{field: [subject]}):
                pass


async def test_what_would_tie_namespaces_to_others_is_not_additional_metadata(
    world: World,
) -> None:
    for key in (constants.TENANT_LABEL, constants.NAME_LABEL):
        with pytest.raises(errors.Forbidden, match="written by the platform"):
            await world.tenant(namespaceOptions={"additionalMetadata": {"labels": {key: "x"}}})


async def test_a_label_that_is_no_tenants_name_can_be(world: World) -> None:
    await world.tenant()
    for value in ("", "A.B_c"):
        with pytest.raises(errors.BadRequest):
            await world.user().create(
                resources.NAMESPACES,
                {
                    "metadata": {
                        "name": world.name("prod"),
                        "labels": {constants.TENANT_LABEL: value},
                    }
                },
            )


async def test_broken_references(world: World) -> None:
    await world.tenant()
    for broken in (
        {"apiVersion": "", "kind": "Tenant", "name": "x", "uid": "y"},
        {"apiVersion": "capsule.clastix.io", "kind": "Tenant", "name": "x", "uid": "y"},
        {"apiVersion": constants.API_VERSION, "kind": "tenant", "name": "x", "uid": "y"},
        {"apiVersion": constants.API_VERSION, "kind": "Tenant", "name": "", "uid": ""},
    ):
        try:
            made = await world.namespace(references=[broken], dry_run=True)
        except errors.ApiError as problem:
            codes = {problem.code}
        else:
            codes = set()
            mine = [r for r in made["metadata"]["ownerReferences"] if r["kind"] == "Tenant"]
            assert [r["name"] for r in mine] == [world.name("oil")]
        assert codes <= {400, 403, 422}


async def test_the_users_of_the_tests_are_known(world: World) -> None:
    """A guard: were the configuration not as these tests say, many would test nothing."""
    found = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
    assert found["spec"]["users"] == [{"kind": "Group", "name": CAPSULE_USERS}]
