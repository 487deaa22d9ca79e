from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pytest
from tools.crdgen import definition

from tenantry.api import meta, resources, schema
from tenantry.api.capsule import common

PLACE = resources.Resource("example.com", "v2", "foxes", "Fox")
COLUMN = definition.Column(name="Age", type="date", path=".metadata.creationTimestamp",
                           description="Age")  # fmt: skip


class Old(common.Wire, kw_only=True):
    metadata: meta.ObjectMeta
    spec: common.Metadata


class New(common.Wire, kw_only=True):
    metadata: meta.ObjectMeta
    spec: common.Metadata | None = None


class Broken(common.Wire, kw_only=True):
    metadata: meta.ObjectMeta
    spec: Annotated[str, schema.facts(default=1)] = ""


def version(struct: type[common.Wire], **more: Any) -> definition.Version:
    plain = definition.Version(name="v2", struct=struct, columns=(COLUMN,))
    return dataclasses.replace(plain, **more)


def test_names_and_scope() -> None:
    spec = definition.crd(
        definition.Kind(resource=PLACE, short_names=("fx",), versions=(version(New),))
    )["spec"]

    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "kind": "Fox",
        "listKind": "FoxList",
        "plural": "foxes",
        "singular": "fox",
        "shortNames": ["fx"],
    }
    assert "conversion" not in spec


def test_several_versions_with_conversion() -> None:
    conversion = {"strategy": "Webhook"}
    spec = definition.crd(
        definition.Kind(
            resource=PLACE,
            versions=(version(Old, name="v1", stored=False), version(New)),
            conversion=conversion,
        )
    )["spec"]

    assert [(v["name"], v["storage"], v["served"]) for v in spec["versions"]] == [
        ("v1", False, True),
        ("v2", True, True),
    ]
    assert spec["conversion"] == conversion
    assert spec["versions"][0]["schema"]["openAPIV3Schema"]["required"] == ["spec"]
    assert "required" not in spec["versions"][1]["schema"]["openAPIV3Schema"]


def test_metadata_is_the_api_servers_own_but_for_the_name() -> None:
    kind = definition.Kind(resource=PLACE, versions=(version(New, name_facts={"maxLength": 9}),))

    root = definition.crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    assert root["properties"]["metadata"] == {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}},
    }


def test_a_schema_that_would_be_refused_is_not_written() -> None:
    with pytest.raises(definition.NotStructuralError, match=r"foxes.example.com v2: \.spec\.def"):
        definition.crd(definition.Kind(resource=PLACE, versions=(version(Broken),)))
