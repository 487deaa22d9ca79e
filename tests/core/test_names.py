"""Names and keys as "Object Names and IDs" and "Labels and Selectors" define them; FNV-1a."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import names

LABELS = {
    "a": True,
    "a-b": True,
    "0": True,
    "123-abc": True,
    "a" * 63: True,
    "": False,
    "a" * 64: False,
    "A": False,
    "-a": False,
    "a-": False,
    "a.b": False,
    "a_b": False,
    "a\n": False,
    "a b": False,
    "ä": False,
    "١": False,
}


@pytest.mark.parametrize(("text", "valid"), LABELS.items())
def test_dns_labels(text: str, valid: bool) -> None:
    assert names.is_dns_label(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("example.com", True),
        ("a", True),
        ("a.b-c.0", True),
        (".".join(["a" * 63] * 3) + "." + "a" * 61, True),
        (".".join(["a" * 63] * 4), False),
        ("", False),
        ("a..b", False),
        (".a", False),
        ("a.", False),
        ("a.-b", False),
        ("Example.com", False),
        ("a/b", False),
        ("a.b\n", False),
    ],
)
def test_dns_subdomains(text: str, valid: bool) -> None:
    assert names.is_dns_subdomain(text) is valid


def test_a_subdomain_has_at_most_253_characters() -> None:
    assert names.is_dns_subdomain("a" * 253)
    assert not names.is_dns_subdomain("a" * 254)


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("app", True),
        ("App_Name.x-1", True),
        ("example.com/app", True),
        ("capsule.clastix.io/tenant", True),
        ("a" * 63, True),
        ("a" * 253 + "/" + "b" * 63, True),
        ("", False),
        ("a" * 64, False),
        ("a" * 254 + "/b", False),
        ("example.com/", False),
        ("/app", False),
        ("a/b/c", False),
        ("Example.com/app", False),
        ("-app", False),
        ("app-", False),
        ("app name", False),
        ("app\n", False),
        ("ключ", False),
    ],
)
def test_label_keys(key: str, valid: bool) -> None:
    assert names.is_qualified_name(key) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("", True),
        ("x", True),
        ("A.b_c-1", True),
        ("v" * 63, True),
        ("v" * 64, False),
        ("-v", False),
        ("v.", False),
        ("a/b", False),
        ("a b", False),
        ("v\n", False),
    ],
)
def test_label_values(value: str, valid: bool) -> None:
    assert names.is_label_value(value) is valid


@given(st.text(alphabet="abz019-._/A\n", max_size=70))
def test_the_patterns_are_the_documented_ones(text: str) -> None:
    label = re.compile(r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
    value = re.compile(r"\A(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
    assert names.is_dns_label(text) == (label.match(text) is not None and len(text) <= 63)
    assert names.is_label_value(text) == (value.match(text) is not None and len(text) <= 63)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        # Test vectors of the algorithm's authors (draft-eastlake-fnv, 64 bit FNV-1a).
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"b", 0xAF63DF4C8601F1A5),
        (b"foo", 0xDCB27518FED9D577),
        (b"foobar", 0x85944171F73967E8),
        (b"chongo was here!\n", 0x46810940EFF5F915),
    ],
)
def test_fnv1a(data: bytes, digest: int) -> None:
    assert names.fnv1a64(data) == digest


def test_the_hash_of_fields_is_unpadded_and_knows_their_bounds() -> None:
    assert names.fields_hash(()) == "cbf29ce484222325"
    assert names.fields_hash(("ab", "c")) != names.fields_hash(("a", "bc"))
    assert names.fields_hash(("", "a")) != names.fields_hash(("a", ""))
    # Lengths count bytes, as Go's `len` does.
    manual = b"\x02" + bytes(7) + "é".encode()
    assert names.fields_hash(("é",)) == f"{names.fnv1a64(manual):x}"
