"""Reviews that do not come from the API server, sent by whoever reaches the webhook's port."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
import uuid

import pytest

from tenantry.api import resources

from .harness import CAPSULE_USERS, Object, World

pytestmark = pytest.mark.plane


def forged(world: World, tenant: Object) -> Object:
    """Say that the tenant's owner creates a namespace, which nobody does."""
    name = world.name("never")
    labels = {"capsule.clastix.io/tenant": tenant["metadata"]["name"]}
    owner = {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "name": tenant["metadata"]["name"],
        "uid": tenant["metadata"]["uid"],
    }
    metadata = {
        "name": name, "uid": str(uuid.uuid4()), "labels": labels, "ownerReferences": [owner],
    }  # fmt: skip
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": "", "version": "v1", "kind": "Namespace"},
            "resource": {"group": "", "version": "v1", "resource": "namespaces"},
            "operation": "CREATE",
            "name": name,
            "userInfo": {"username": world.name("alice"), "groups": [CAPSULE_USERS]},
            "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        },
    }


async def test_a_forged_review_takes_no_room(world: World) -> None:
    tenant = await world.tenant(namespaceOptions={"quota": 1})
    configuration = await world.admin.get(resources.VALIDATING_WEBHOOKS, "tenantry")
    url = configuration["webhooks"][0]["clientConfig"]["url"]
    nobody = ssl.create_default_context()
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(
        url,
        data=json.dumps(forged(world, tenant)).encode(),
        headers={"Content-Type": "application/json"},
    )

    def send() -> None:
        with urllib.request.urlopen(request, context=nobody, timeout=10) as answer:
            answer.read()

    with pytest.raises(OSError):  # how the refusal of a handshake shows, differs
        await asyncio.to_thread(send)
    await world.namespace("mine")
