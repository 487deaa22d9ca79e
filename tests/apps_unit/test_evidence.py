"""Which tenants a namespace request can concern: none is missed, few are read."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.apps import evidence
from tenantry.runtime import admission


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
    ("new", "old", "expected"),
    [
        pytest.param(namespace(), None, [], id="none"),
        pytest.param(namespace("a"), None, ["a"], id="label"),
        pytest.param(namespace(None, "b", "a"), None, ["a", "b"], id="two references"),
        pytest.param(namespace("a", "b"), None, ["a", "b"], id="label and reference"),
        # A change concerns what is stored and what shall be.
        pytest.param(namespace("b", "b"), namespace("a", "a"), ["a", "b"], id="moved"),
        pytest.param(namespace(), namespace("a", "a"), ["a"], id="stripped"),
        pytest.param(namespace(), namespace(), [], id="none of ours"),
        pytest.param(None, namespace("a", "a"), ["a"], id="deleted"),
        # What no tenant can be called would change the path of the request.
        pytest.param(namespace("", ""), None, [], id="empty"),
        pytest.param(namespace("a/../b"), None, [], id="slash"),
        pytest.param(namespace("..", "."), None, [], id="dots"),
        pytest.param(namespace("a%2Fb"), None, [], id="percent"),
        pytest.param(namespace("a?x=y"), None, [], id="query"),
        pytest.param(namespace("a#b"), None, [], id="fragment"),
    ],
)
def test_tenants_mentioned(
    new: dict[str, Any] | None, old: dict[str, Any] | None, expected: list[str]
) -> None:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    review = admission.Review(
        uid="u", operation=operation, resource="namespaces", object=new, old=old
    )
    assert sorted(evidence.tenants_mentioned(review)) == expected
