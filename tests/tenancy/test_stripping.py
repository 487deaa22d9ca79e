from __future__ import annotations

import pytest

from tenantry.api import meta, resources
from tenantry.api.capsule import constants, tenant
from tenantry.kube import discovery
from tenantry.tenancy import stripping


def going(*finalizers: str, deleted: bool = True) -> meta.ObjectMeta:
    return meta.ObjectMeta(
        name="x",
        uid="u",
        finalizers=list(finalizers),
        deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
    )


def test_only_what_is_being_deleted_is_touched() -> None:
    assert stripping.operations(going()) == []
    assert stripping.operations(going("a.io/b", deleted=False)) == []
    assert stripping.operations(going("a.io/b", "c.io/d")) == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        # Somebody who is at work on them at the same time is not overrun.
        {"op": "test", "path": "/metadata/finalizers", "value": ["a.io/b", "c.io/d"]},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, False),
        ({constants.STRIP_ANNOTATION: "true"}, True),
        ({constants.STRIP_ANNOTATION: "false"}, False),
        ({constants.STRIP_ANNOTATION: ""}, False),
    ],
)
def test_never_unless_asked_for(annotations: dict[str, str], expected: bool) -> None:
    owner = tenant.Tenant(metadata=meta.ObjectMeta(name="oil", annotations=annotations))
    assert stripping.asked_for(owner) is expected


def served(resource: resources.Resource, *verbs: str, preferred: bool = True) -> discovery.Served:
    return discovery.Served(
        resource=resource, verbs=verbs or ("list", "patch", "delete"), preferred=preferred
    )


def test_kinds_that_can_hold_a_namespace_back() -> None:
    found = stripping.kinds(
        [
            served(resources.PODS),
            served(resources.EVENTS),
            served(resources.ROLE_BINDINGS),
            served(resources.NAMESPACES),
            served(resources.SECRETS, "get", "list"),
            served(resources.SERVICES, preferred=False),
            served(resources.CONFIG_MAPS),
        ]
    )
    assert [one.resource for one in found] == [resources.CONFIG_MAPS]


def test_a_namespace_waits_without_pods_first() -> None:
    now = [0.0]
    waits = stripping.Waits(lambda: now[0])
    assert not waits.due("a", pods=False)
    now[0] = 9.0
    assert not waits.due("a", pods=False)
    assert not waits.due("a", pods=True)
    now[0] = 18.0
    assert not waits.due("a", pods=False)
    now[0] = 28.0
    assert waits.due("a", pods=False)
    assert not waits.due("a", pods=False)
    waits.forget("a")
    now[0] = 100.0
    assert not waits.due("a", pods=False)


def test_missing_rights_are_named() -> None:
    assert stripping.message([]) == ""
    found = stripping.message(["d", "c", "b", "a", "e"])
    assert "not from a, b, c and 2 more kinds: give list and patch" in found
