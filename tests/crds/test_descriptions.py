from __future__ import annotations

from tools.crdgen import descriptions

from tenantry.api.capsule import common


class Base(common.Wire, kw_only=True):
    """Base of
    the examples.
    """

    first: str = ""
    """Text of
    the first."""
    second: str = ""
    third: str = ""
    """Third.

    With a second
    paragraph."""


class Derived(Base, kw_only=True):
    third: str = ""
    """Said again."""
    fourth: str = ""
    not_a_text = 1


def test_text_below_a_field_belongs_to_it() -> None:
    assert descriptions.of_fields(Base) == {
        "first": "Text of the first.",
        "third": "Third.\n\nWith a second paragraph.",
    }


def test_fields_of_bases_are_described_and_may_be_described_anew() -> None:
    texts = descriptions.of_fields(Derived)

    assert texts["first"] == "Text of the first."
    assert texts["third"] == "Said again."
    assert "fourth" not in texts


def test_a_docstring_flows() -> None:
    assert descriptions.of_struct(Base) == "Base of the examples."
