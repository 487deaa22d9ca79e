"""A field that is accepted but does nothing is named."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import common, tenant
from tenantry.tenancy import enforcement


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param(
            {
                "owners": [{"kind": "User", "name": "a", "clusterRoles": ["view"]}],
                "namespaceOptions": {"quota": 3, "forbiddenLabels": {"denied": ["a"]}},
                "nodeSelector": {"pool": "oil"},
                "additionalRoleBindings": [{"clusterRoleName": "view", "subjects": []}],
                "cordoned": True,
                "preventDeletion": True,
                "forceTenantPrefix": False,
                "data": {"anything": {"goes": 1}},
            },
            [],
            id="all in force",
        ),
        pytest.param(
            {"owners": [{"kind": "User", "name": "a", "proxySettings": [
                {"kind": "Nodes", "operations": ["List"]}]}]},
            ["owners[].proxySettings[].kind", "owners[].proxySettings[].operations"],
            id="the gateway's",
        ),
        pytest.param(
            {"resourceQuotas": {"items": [{}]}, "namespaceOptions": {"quota": 1}},
            ["resourceQuotas.items[]"], id="set",
        ),
        pytest.param({"namespaceOptions": {"managedMetadataOnly": False}}, [], id="as by default"),
        pytest.param({"resourceQuotas": {"scope": "Tenant"}}, [], id="the default"),
        pytest.param(
            {"resourceQuotas": {"scope": "Namespace"}}, ["resourceQuotas.scope"], id="on",
        ),
        pytest.param(
            {"rules": [{"quota": [{"name": "gpus"}], "enforce": {"action": "allow"}}]},
            ["rules[].quota[].name"], id="one of two",
        ),
        pytest.param(
            {"rules": [{"namespaceSelector": {"matchLabels": {"a": "b"}},
                        "permissions": {"bindings": [{"clusterRoleName": "x", "subjects": []}],
                                        "promotions": [{"clusterRoles": ["y"]}]},
                        "quota": [{"name": "z"}]}]},
            ["rules[].quota[].name"], id="half a rule",
        ),
        pytest.param(
            {"zebra": {"allowed": ["fast"]},
             "resourceQuotas": {"items": [{"hard": {"cpu": 1}}]}},
            ["resourceQuotas.items[]", "zebra"], id="sorted",
        ),
        pytest.param({"quotaa": 1}, ["quotaa"], id="unknown to the schema"),
        # A longer name must not pass for the field that its beginning spells.
        pytest.param({"dataset": 1, "cordonedUntil": "x"}, ["cordonedUntil", "dataset"], id="alike"),
    ],
)  # fmt: skip
def test_unenforced(spec: dict[str, Any], expected: list[str]) -> None:
    assert enforcement.unenforced(spec) == expected


def _paths(struct: type[common.Wire], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        yield path
        for kind, many in _inner(field.type):
            yield from _paths(kind, f"{path}[]." if many else f"{path}.")


def _inner(kind: Any, *, many: bool = False) -> Iterator[tuple[type[common.Wire], bool]]:
    if isinstance(kind, type) and issubclass(kind, common.Wire):
        yield kind, many
    for part in typing.get_args(kind):
        yield from _inner(part, many=many or typing.get_origin(kind) is list)


PATHS = set(_paths(tenant.TenantSpec))


@pytest.mark.parametrize("path", enforcement.ENFORCED)
def test_every_path_is_one_of_the_schema(path: str) -> None:
    assert path in PATHS


def test_the_table_is_sorted_and_without_repetition() -> None:
    assert list(enforcement.ENFORCED) == sorted(set(enforcement.ENFORCED))
