"""Which tenants a namespace request can concern: none is missed, few are read."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.apps import evidence
from tenantry.directory import identity
from tenantry.runtime import admission

ADMIN, CAPSULE, UNKNOWN = identity.Class.ADMIN, identity.Class.CAPSULE, identity.Class.UNKNOWN


def namespace(label: str | None = None, *references: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "ns"}
    if label is not None:
        metadata["labels"] = {"capsule.clastix.io/tenant": label}
    if references:
        metadata["ownerReferences"] = [
            {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": name, "uid": "u"}
            for name in references
        ]
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("new", "old", "klass", "expected"),
    [
        # Only a Capsule user who names no tenant leaves the choice to us.
        pytest.param(namespace(), None, CAPSULE, None, id="ours to choose"),
        pytest.param(namespace(None, "a"), None, CAPSULE, None, id="a reference chooses nothing"),
        pytest.param(namespace("a"), None, CAPSULE, ["a"], id="label"),
        pytest.param(namespace("a", "b"), None, CAPSULE, ["a", "b"], id="label and reference"),
        pytest.param(namespace(), None, ADMIN, [], id="administrator, none"),
        pytest.param(namespace(None, "b", "a"), None, ADMIN, ["a", "b"], id="administrator, two"),
        pytest.param(namespace(), None, UNKNOWN, [], id="stranger, none"),
        pytest.param(namespace("a"), None, UNKNOWN, ["a"], id="stranger"),
        # A change concerns what is stored and what shall be.
        pytest.param(namespace("b", "b"), namespace("a", "a"), CAPSULE, ["a", "b"], id="moved"),
        pytest.param(namespace(), namespace("a", "a"), CAPSULE, ["a"], id="stripped"),
        pytest.param(namespace(), namespace(), CAPSULE, [], id="none of ours"),
        pytest.param(None, namespace("a", "a"), CAPSULE, ["a"], id="deleted"),
        pytest.param(None, namespace(), UNKNOWN, [], id="none of ours deleted"),
        # What no tenant can be called would change the path of the request.
        pytest.param(namespace("", ""), None, ADMIN, [], id="empty"),
        pytest.param(namespace("a/../b"), None, CAPSULE, [], id="slash"),
        pytest.param(namespace("..", "."), None, ADMIN, [], id="dots"),
        pytest.param(namespace("a%2Fb"), None, CAPSULE, [], id="percent"),
        pytest.param(namespace("a?x=y"), None, ADMIN, [], id="query"),
        pytest.param(namespace("a#b"), None, ADMIN, [], id="fragment"),
    ],
)
def test_tenants_needed(
    new: dict[str, Any] | None,
    old: dict[str, Any] | None,
    klass: identity.Class,
    expected: list[str] | None,
) -> None:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    review = admission.Review(
        uid="u", operation=operation, resource="namespaces", object=new, old=old
    )
    assert evidence.tenants_needed(review, klass) == expected
