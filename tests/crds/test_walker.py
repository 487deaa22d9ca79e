from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from tools.crdgen import walker

from tenantry.api import schema
from tenantry.api.capsule import common


def roles() -> list[str]:
    return ["admin"]


class Inner(common.Wire, kw_only=True):
    """An inner thing."""

    SCHEMA: ClassVar[tuple[schema.Rule | schema.Facts, ...]] = (
        schema.Rule("has(self.a)", "a must be set"),
        schema.ATOMIC_MAP,
    )

    a: str = ""


class Sample(common.Wire, kw_only=True):
    """A sample."""

    kind: Literal["Zebra", "Ape", "Mole"]
    """Kind of animal."""
    roles: list[str] = msgspec.field(default_factory=roles)
    on: bool = False
    maybe: bool | None = None
    count: int = 0
    text: str = ""
    word: str = "hello"
    odd_name: str = msgspec.field(name="oddNAME", default="")
    bounded: Annotated[int, schema.facts(minimum=1, maximum=9)] | None = None
    amount: schema.Quantity | None = None
    inner: Inner | None = None
    """The inner one, told anew."""
    made: Inner = msgspec.field(default_factory=Inner)
    listed: Annotated[list[Inner], schema.map_by("a")] = []
    mapped: dict[str, Inner] = {}
    free: schema.Anything = None
    opaque: Annotated[dict[str, Any], schema.Core("ScopeSelector")] | None = None
    judged: Annotated[str, schema.Rule("self != 'x'", "not x"), schema.NOT_EMPTY] = ""


@pytest.fixture(scope="module")
def properties() -> dict[str, Any]:
    node = walker.struct(Sample)
    assert node["type"] == "object"
    assert node["description"] == "A sample."
    assert node["required"] == ["kind"]
    properties: dict[str, Any] = node["properties"]
    return properties


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kind", {"description": "Kind of animal.", "type": "string",
                  "enum": ["Zebra", "Ape", "Mole"]}),
        ("roles", {"type": "array", "default": ["admin"], "items": {"type": "string"}}),
        ("on", {"type": "boolean", "default": False}),
        ("maybe", {"type": "boolean"}),
        ("count", {"type": "integer"}),
        ("text", {"type": "string"}),
        ("word", {"type": "string", "default": "hello"}),
        ("oddNAME", {"type": "string"}),
        ("bounded", {"type": "integer", "minimum": 1, "maximum": 9}),
        ("amount", {"anyOf": [{"type": "integer"}, {"type": "string"}],
                    "pattern": schema.QUANTITY_PATTERN, "x-kubernetes-int-or-string": True}),
        ("free", {"x-kubernetes-preserve-unknown-fields": True}),
        ("judged", {"type": "string", "minLength": 1,
                    "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "not x"}]}),
    ],
)  # fmt: skip
def test_one_place(properties: dict[str, Any], name: str, expected: dict[str, Any]) -> None:
    assert properties[name] == expected


def test_a_field_tells_more_than_the_docstring_of_its_type(properties: dict[str, Any]) -> None:
    assert properties["inner"]["description"] == "The inner one, told anew."
    assert properties["made"]["description"] == "An inner thing."


def test_what_a_struct_says_of_itself_stands_wherever_it_is_used(
    properties: dict[str, Any],
) -> None:
    rule = [{"rule": "has(self.a)", "message": "a must be set"}]

    assert properties["inner"]["x-kubernetes-validations"] == rule
    assert properties["listed"]["items"]["x-kubernetes-validations"] == rule
    assert properties["mapped"]["additionalProperties"]["x-kubernetes-validations"] == rule
    assert properties["mapped"]["additionalProperties"]["x-kubernetes-map-type"] == "atomic"


def test_list_map_keys_stand_on_the_list(properties: dict[str, Any]) -> None:
    assert properties["listed"]["x-kubernetes-list-type"] == "map"
    assert properties["listed"]["x-kubernetes-list-map-keys"] == ["a"]


def test_defaults_of_a_made_struct_stay_inside_it(properties: dict[str, Any]) -> None:
    assert "default" not in properties["made"]


def test_core_types_are_expanded_and_not_shared(properties: dict[str, Any]) -> None:
    again = walker.struct(Sample)["properties"]["opaque"]

    assert "matchExpressions" in properties["opaque"]["properties"]
    assert again == properties["opaque"]
    assert again["properties"] is not properties["opaque"]["properties"]


def test_keywords_are_written_in_reading_order(properties: dict[str, Any]) -> None:
    assert list(properties["kind"]) == ["description", "type", "enum"]


def test_a_type_without_counterpart_is_refused() -> None:
    with pytest.raises(walker.UnknownTypeError, match="no schema for <class 'float'>"):
        walker.place(float)
