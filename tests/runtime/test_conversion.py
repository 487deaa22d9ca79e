"""Conversion: the rules, and a CRD with two versions whose conversion an API server asks us for."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.pki import authority
from tenantry.runtime import conversion, timing, webhook

Object = dict[str, Any]


def convert(obj: Object, desired: str) -> Object:
    """v1 has `spec.size`, v2 has `spec.replicas`."""
    here, there = ("size", "replicas") if desired.endswith("/v2") else ("replicas", "size")
    spec = dict(obj["spec"])
    if spec.get(here) == 13:
        raise ValueError("thirteen is not convertible")
    spec[there] = spec.pop(here)
    return {**obj, "apiVersion": desired, "spec": spec}


def review(*objects: Object, desired: str = "x.io/v2") -> bytes:
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": desired, "objects": objects},
            # As the API server sends it.
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
    ).encode()


def thing(size: int = 1, **metadata: Any) -> Object:
    return {
        "apiVersion": "x.io/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "n", "uid": "1", **metadata},
        "spec": {"size": size},
    }


def test_objects_come_back_in_order() -> None:
    newer = {**thing(3), "apiVersion": "x.io/v2", "spec": {"replicas": 3}}
    answer = json.loads(conversion.answer(review(thing(1), newer, thing(2)), convert))
    response = answer["response"]
    assert response["uid"] == "u"
    assert response["result"] == {"status": "Success"}
    assert [obj["spec"] for obj in response["convertedObjects"]] == [
        {"replicas": 1},
        {"replicas": 3},
        {"replicas": 2},
    ]
    assert {obj["apiVersion"] for obj in response["convertedObjects"]} == {"x.io/v2"}


def labelled(obj: Object, desired: str) -> Object:
    made = convert(obj, desired)
    made["metadata"] = {**obj["metadata"], "labels": {"was": "v1"}}
    return made


def renamed(obj: Object, desired: str) -> Object:
    obj["metadata"]["name"] = "b"
    return convert(obj, desired)


def other_kind(obj: Object, desired: str) -> Object:
    return {**convert(obj, desired), "kind": "Other"}


def test_labels_may_change() -> None:
    answer = json.loads(conversion.answer(review(thing()), labelled))
    assert answer["response"]["convertedObjects"][0]["metadata"]["labels"] == {"was": "v1"}


@pytest.mark.parametrize(
    ("how", "objects", "message"),
    [
        (convert, [thing(1), thing(13)], "Thing n/a to x.io/v2: thirteen is not convertible"),
        (renamed, [thing()], "Thing n/a to x.io/v2: metadata.name must not change"),
        (other_kind, [thing()], "Thing n/a to x.io/v2: became x.io/v2 Other"),
    ],
)
def test_one_mistake_fails_all(
    how: conversion.Convert, objects: list[Object], message: str
) -> None:
    response = json.loads(conversion.answer(review(*objects), how))["response"]
    assert response["result"] == {"status": "Failure", "message": f"tenantry: {message}"}
    assert response["convertedObjects"] == []


@pytest.mark.parametrize("body", [b"", b"{}", b'{"apiVersion":"v1","kind":"X"}', review()[:-5]])
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        conversion.answer(body, convert)


def version(name: str, field: str, *, storage: bool) -> Object:
    spec = {"type": "object", "properties": {field: {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


@pytest.mark.plane
async def test_an_api_server_reads_one_version_as_another(
    admin: kube.Client, namespace: str, quick: timing.Timing
) -> None:
    ca = authority.Authority.create("ca", time.time())
    pair = ca.issue_server(["127.0.0.1"], time.time())
    server = webhook.Server("127.0.0.1", 0, certificate=lambda: (pair.cert, pair.key), timing=quick)
    server.route_conversion("/convert", convert)
    with pytest.raises(ValueError, match="routed already"):
        server.route_conversion("/convert", convert)
    await server.start()
    group = f"{namespace}.example.com"
    client = {
        "url": f"https://127.0.0.1:{server.port}/convert",
        "caBundle": base64.b64encode(ca.cert).decode(),
    }
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    await admin.create(
        resources.CRDS,
        {
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "names": names,
                "scope": "Namespaced",
                "versions": [
                    version("v1", "size", storage=False),
                    version("v2", "replicas", storage=True),
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
                },
            },
        },
    )
    old, new = (resources.Resource(group, each, "things", "Thing") for each in ("v1", "v2"))
    body = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"size": 5}}
    async with asyncio.timeout(20):
        while True:
            try:
                await admin.create(old, body)
            except (errors.NotFound, errors.MethodNotAllowed):
                await asyncio.sleep(0.05)
            else:
                break
    assert (await admin.get(new, "a", namespace))["spec"] == {"replicas": 5}
    assert (await admin.get(old, "a", namespace))["spec"] == {"size": 5}
    with pytest.raises(errors.KubeError, match="thirteen is not convertible"):
        await admin.create(
            old, {"metadata": {"name": "b", "namespace": namespace}, "spec": {"size": 13}}
        )
    await admin.delete(resources.CRDS, f"things.{group}")
    await server.stop()
