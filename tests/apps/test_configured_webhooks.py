"""Webhooks that a CapsuleConfiguration defines (specs/capsule 1.5, 5.1)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import certificates, configured_keeper, hooks
from tenantry.kube import errors

from .harness import SYSTEM, Object, World, eventually

pytestmark = pytest.mark.plane

GUIDE = Path(__file__).parents[2] / "docs" / "tenants.md"
FIRST, SECOND = configured_keeper.NAMES[:2]
SIDES = {"mutating": resources.MUTATING_WEBHOOKS, "validating": resources.VALIDATING_WEBHOOKS}


def webhook(name: str = "pods", path: str = "/pods/validating", **more: Any) -> Object:
    return {
        "name": name,
        "path": path,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        # So that what is registered here reaches no other test.
        "namespaceSelector": {"matchLabels": {"nobody": "has-this"}},
        **more,
    }


async def registered(world: World, name: str = FIRST, side: str = "validating") -> Object:
    return await world.admin.get(SIDES[side], name)


async def gone(world: World, name: str, side: str = "validating") -> None:
    async def missing() -> bool:
        try:
            await registered(world, name, side)
        except errors.NotFound:
            return True
        return False

    await eventually(missing, f"{name} goes")


async def status(world: World) -> Object:
    found = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
    return world.condition(found["status"], configured_keeper.CONDITION)


async def client(world: World) -> Object:
    """Return where the fixed webhooks lead, which is the only server there is."""
    fixed = await registered(world, hooks.NAME)
    url = fixed["webhooks"][0]["clientConfig"]["url"]
    return {"url": url.removesuffix("/validate")}


async def test_what_is_defined_is_registered_renamed_and_removed(world: World) -> None:
    where = await client(world)
    said: Object = {
        "name": FIRST,
        "labels": {"mine": "1"},
        "annotations": {"note": "x"},
        "client": where,
        "webhooks": [
            webhook("services", "/services/validating", timeoutSeconds=3),
            webhook(
                opts={"capsuleUsers": True},
                failurePolicy="Ignore",
                matchPolicy="Exact",
                objectSelector={"matchLabels": {"a": "b"}},
                matchConditions=[{"name": "mine", "expression": "true"}],
            ),
        ],
    }
    mutating = {
        **said,
        "webhooks": [webhook("defaults", "/defaults", reinvocationPolicy="IfNeeded")],
    }
    async with world.configured(admission={"validating": said, "mutating": mutating}):
        found = await eventually(lambda: registered(world))
        owner = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
        assert found["metadata"]["labels"] == {
            "mine": "1",
            "projectcapsule.dev/created-by": "controller",
        }
        assert found["metadata"]["annotations"] == {"note": "x"}
        assert [one["uid"] for one in found["metadata"]["ownerReferences"]] == [
            owner["metadata"]["uid"]
        ]
        pods, services = found["webhooks"]
        assert pods["name"] == "pods.validating.projectcapsule.dev"
        assert services["name"] == "services.validating.projectcapsule.dev"
        assert pods["clientConfig"]["url"] == f"{where['url']}/pods/validating"
        fixed = (await registered(world, hooks.NAME))["webhooks"][0]["clientConfig"]
        assert pods["clientConfig"]["caBundle"] == fixed["caBundle"]
        assert (pods["failurePolicy"], pods["matchPolicy"]) == ("Ignore", "Exact")
        assert (services["failurePolicy"], services["timeoutSeconds"]) == ("Fail", 3)
        assert pods["objectSelector"] == {"matchLabels": {"a": "b"}}
        names = [each["name"] for each in pods["matchConditions"]]
        assert names == ["mine", "not-the-cluster-itself", "requesters"]
        other = await eventually(lambda: registered(world, side="mutating"))
        assert other["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
        assert (await status(world))["status"] == "True"

        # A TenantOwner that is a user is asked about at once.
        owner_name = world.name("dana")
        spec = {"kind": "User", "name": owner_name}
        await world.admin.create(
            capsule.TENANT_OWNERS, {"metadata": {"name": owner_name}, "spec": spec}
        )

        async def follows() -> bool:
            pods = (await registered(world))["webhooks"][0]
            return owner_name in pods["matchConditions"][-1]["expression"]

        await eventually(follows)
        await world.admin.delete(capsule.TENANT_OWNERS, owner_name)

        async def left() -> bool:
            return not await follows()

        await eventually(left)
        # Somebody takes it away, or changes it.
        await world.admin.delete(resources.VALIDATING_WEBHOOKS, FIRST)
        await eventually(lambda: registered(world))

        # An older name goes at any look, no webhooks make no object.
        await world._configure({"admission": {"validating": {**said, "name": SECOND}}})
        await eventually(lambda: registered(world, SECOND))
        await gone(world, FIRST)
        await world._configure(
            {"admission": {"validating": {**said, "name": SECOND, "webhooks": []}}}
        )
        await gone(world, SECOND)
    await gone(world, FIRST, "mutating")


async def test_what_makes_no_sense_is_refused_and_named(world: World) -> None:
    where = await client(world)
    field = "spec.admission.validating"

    async def attempt(*webhooks: Object, name: str = FIRST, **more: Any) -> str:
        said = {"name": name, "client": where, "webhooks": list(webhooks), **more}
        with pytest.raises(errors.ApiError) as caught:
            await world._configure({"admission": {"validating": said}})
        assert caught.value.code == 422
        return caught.value.message

    try:
        message = await attempt(webhook(), webhook("other", "/secrets"))
        assert f'{field}.webhooks[1].path: Invalid value: "/secrets": must be among' in message
        wrong = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
        assert f"{field}.webhooks[0].objectSelector" in await attempt(webhook(objectSelector=wrong))
        broken = [{"name": "mine", "expression": "request.what("}]
        message = await attempt(webhook(), webhook("b", matchConditions=broken))
        assert f"{field}.webhooks[1].matchConditions[0].expression" in message
        many = [{"name": f"c{number}", "expression": "true"} for number in range(63)]
        assert "must be at most 62" in await attempt(webhook(matchConditions=many))
        assert "Duplicate value" in await attempt(webhook(), webhook())
        assert f"{field}.name" in await attempt(webhook(), name=hooks.NAME)
        assert f"{field}.client.url" in await attempt(
            webhook(), client={"url": "https://somebody@example.com"}
        )
        words = 'spec.admission.serviceName: Invalid value: "a.b": must be the name of a Service'
        with pytest.raises(errors.Invalid, match=re.escape(words)):
            await world._configure({"admission": {"serviceName": "a.b"}})
    finally:
        await world._configure({"admission": None})


async def test_overrides_name_what_is_written(world: World) -> None:
    """The Secret of the certificate, and what webhooks are called whose own name is empty."""
    where = await client(world)
    found = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
    usual = found["spec"]["overrides"]["TLSSecretName"]
    other = certificates.CAPSULE_SECRET
    assert usual != other
    said = {"client": where, "webhooks": [webhook()]}
    theirs = {"metadata": {"name": other, "namespace": SYSTEM}, "stringData": {"mine": "x"}}

    async def secret(name: str) -> Object:
        return await world.admin.get(resources.SECRETS, name, SYSTEM)

    async def attempt(**overrides: str) -> str:
        with pytest.raises(errors.ApiError) as caught:
            await world._configure({"overrides": overrides, "admission": {"validating": said}})
        assert caught.value.code == 422
        return caught.value.message

    try:
        words = 'spec.overrides.TLSSecretName: Invalid value: "A/b": must be the name of a Secret'
        assert words in await attempt(TLSSecretName="A/b")
        words = 'spec.admission.validating.name: Invalid value: "A b": must be a DNS name'
        assert words in await attempt(validatingWebhookConfigurationName="A b")

        await world.admin.create(resources.SECRETS, theirs)
        names = {"validatingWebhookConfigurationName": SECOND, "TLSSecretName": other}
        await world._configure({"overrides": names, "admission": {"validating": said}})
        await eventually(lambda: registered(world, SECOND))
        names = {"mutatingWebhookConfigurationName": SECOND}
        mutating = {"client": where, "webhooks": [webhook(path="/defaults")]}
        await world._configure({"overrides": names, "admission": {"mutating": mutating}})
        await eventually(lambda: registered(world, SECOND, "mutating"))

        async def complained() -> bool:
            log = await asyncio.to_thread(world.tenancy.webhook.log.read_text)
            return f"secret {SYSTEM}/{other} was not made by Tenantry" in log

        # What is somebody else's is left alone, and the certificate in use goes on.
        await eventually(complained)
        assert set((await secret(other))["data"]) == {"mine"}
        await world.tenant()
        await world.namespace()
        await world.admin.delete(resources.SECRETS, other, SYSTEM)
        kept = await eventually(lambda: secret(other))
        assert kept["data"] == (await secret(usual))["data"]
        assert {"ca.crt", "ca.key", "tls.crt", "tls.key"} <= set(kept["data"])
        await world.namespace("more")
    finally:
        back = {"TLSSecretName": usual}
        sides = {f"{side}WebhookConfigurationName": None for side in SIDES}
        await world._configure({"overrides": {**back, **sides}, "admission": None})
        for side in SIDES:
            await gone(world, SECOND, side)
        with contextlib.suppress(errors.NotFound):
            await world.admin.delete(resources.SECRETS, other, SYSTEM)


async def test_what_was_stored_wrong_costs_only_itself(world: World) -> None:
    """Nobody asked us when it was written, as when webhooks are down."""
    where = await client(world)
    ourselves = world.admin.as_user(
        f"system:serviceaccount:{constants.CONTROLLER_NAMESPACE}:capsule", ["system:masters"]
    )
    said = {
        "name": FIRST,
        "client": where,
        "webhooks": [
            webhook("a", matchConditions=[{"name": "mine", "expression": "1 +"}]),
            webhook("b", "/nowhere"),
            webhook("c"),
            webhook("d", "/resourcepools/validating"),
        ],
    }
    try:
        await ourselves.patch(
            capsule.CONFIGURATIONS,
            constants.CONFIGURATION_NAME,
            kind="merge",
            body={"spec": {"admission": {"validating": said}}},
        )
        found = await eventually(lambda: registered(world))
        assert [hook["name"] for hook in found["webhooks"]] == ["c.validating.projectcapsule.dev"]

        async def told() -> bool:
            condition = await status(world)
            text = condition["message"]
            return (condition["status"], condition["reason"]) == ("False", "Failed") and all(
                f"spec.admission.validating.webhooks[{number}].{rest}" in text
                for number, rest in enumerate(("matchConditions[0].expression", "path"))
            )

        await eventually(told)
        # What Capsule answers and we do not yet is no mistake.
        assert (
            "webhooks[3].path: /resourcepools/validating is not answered here"
            in ((await status(world))["message"])
        )
        # It can be left as it is, and repaired.
        await world.admin.patch(
            capsule.CONFIGURATIONS,
            constants.CONFIGURATION_NAME,
            kind="merge",
            body={"metadata": {"annotations": {"touched": "1"}}},
        )
    finally:
        await world._configure({"admission": None})
    await gone(world, FIRST)

    async def well() -> bool:
        return bool((await status(world))["status"] == "True")

    await eventually(well)


async def test_what_others_made_is_left_alone(world: World) -> None:
    where = await client(world)
    theirs: Object = {
        "metadata": {"name": SECOND, "labels": {"projectcapsule.dev/created-by": "controller"}},
        "webhooks": [],
    }
    await world.admin.create(resources.VALIDATING_WEBHOOKS, theirs)
    # Made from this very configuration, but by a Capsule that still runs.
    owner = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
    reference = {
        "apiVersion": constants.API_VERSION,
        "kind": "CapsuleConfiguration",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    one = webhook("x.validating.projectcapsule.dev")
    del one["path"]
    capsules = {
        "metadata": {**theirs["metadata"], "name": FIRST, "ownerReferences": [reference]},
        "webhooks": [
            {**one, "clientConfig": {"url": f"{where['url']}/pods/validating"}},
        ],
    }
    try:
        await world.admin.create(resources.VALIDATING_WEBHOOKS, capsules, field_manager="capsule")
        said = {"name": SECOND, "client": where, "webhooks": [webhook()]}
        async with world.configured(admission={"validating": said}):

            async def told() -> bool:
                found = await status(world)
                message = found["message"]
                # Also what Capsule made under another name stays, and is told.
                assert f"{FIRST} was made from here by others" in message
                return bool(found["status"] == "False" and "left alone" in message)

            await eventually(told)
            # Nobody allowed us a name of one's own.
            await world._configure({"admission": {"validating": {**said, "name": "my-own"}}})

            async def forbidden() -> bool:
                message = (await status(world))["message"]
                return "my-own" in message and "has to be allowed to the webhook role" in message

            await eventually(forbidden)
            await world._configure({"admission": {"validating": {**said, "name": FIRST}}})

            async def trusted() -> bool:
                (hook,) = (await registered(world))["webhooks"]
                assert hook["name"] == "x.validating.projectcapsule.dev"
                return "caBundle" in hook["clientConfig"]

            await eventually(trusted)
        assert (await registered(world, SECOND)).get("webhooks") is None
        assert (await registered(world))["webhooks"]
    finally:
        for name in (FIRST, SECOND):
            await world.admin.delete(resources.VALIDATING_WEBHOOKS, name)


async def test_a_configured_webhook_is_asked(world: World) -> None:
    """Its answers are those of the fixed ones, of which none is asked about what it adds."""
    where = await client(world)
    await world.tenant()
    namespace = await world.namespace()
    assert namespace
    label = {"mine": world.name("x")}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    said = {
        "name": FIRST,
        "client": {"url": f"{where['url'].rpartition(':')[0]}:1"},
        "webhooks": [
            webhook(
                rules=[rule],
                namespaceSelector={"matchLabels": {constants.TENANT_LABEL: world.name("oil")}},
                objectSelector={"matchLabels": label},
                opts={"administrators": True},
            )
        ],
    }
    body = {"metadata": {"name": "x", "namespace": world.name("prod"), "labels": label}}
    async with world.configured(admission={"validating": said}):
        await eventually(lambda: registered(world))

        async def asked() -> bool:
            # Nobody listens there.
            try:
                await world.boss().create(resources.CONFIG_MAPS, body, dry_run=True)
            except errors.InternalError as problem:
                return "failed calling webhook" in problem.message
            return False

        await eventually(asked)
        # Nobody else is asked about, and so nobody else waits for it.
        await world.admin.create(resources.CONFIG_MAPS, body, dry_run=True)
    await gone(world, FIRST)


async def test_the_guide_shows_what_happens(world: World) -> None:
    text = GUIDE.read_text().partition("## Webhooks of your own")[2]
    said = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    commands = text.partition("```console\n")[2].partition("```")[0]
    async with world.configured(**said["spec"]):
        found = await eventually(lambda: registered(world))
        assert f"\n{found['webhooks'][0]['name']}\n" in commands

        async def told() -> bool:
            return f"\n{(await status(world))['message']}\n" in commands

        await eventually(told)
    await gone(world, FIRST)
