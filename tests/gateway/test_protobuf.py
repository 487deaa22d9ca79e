"""Lists in protobuf: taken apart, looked at, and joined."""

from __future__ import annotations

import pytest

from tenantry.gateway import decide, errors, formats, merge, protobuf, sieve, terms

SHOWN = sieve.predicate(decide.Sieve(terms.named(["a", "b"]), tenants=frozenset(("oil",))))


def field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    assert len(data) < 1 << 14
    size = (
        bytes((len(data),)) if len(data) < 128 else bytes((len(data) & 127 | 128, len(data) >> 7))
    )
    return bytes((number << 3 | 2,)) + size + data


def thing(name: str, *, label: str = "", owner: str = "") -> bytes:
    metadata = field(1, name) + field(5, f"u-{name}") + bytes((7 << 3, 0x96, 0x01))
    if label:
        metadata += field(11, field(1, "capsule.clastix.io/tenant") + field(2, label))
    if owner:
        reference = field(1, "Tenant") + field(3, owner) + field(4, "u")
        metadata += field(13, reference + field(5, "capsule.clastix.io/v1beta2"))
    return field(1, metadata) + field(2, "spec" * 50)


def listing(*items: bytes, version: str = "7", more: str = "", left: int = 0) -> bytes:
    metadata = field(2, version) + (field(3, more) if more else b"")
    metadata += bytes((4 << 3, left)) if left else b""
    raw = field(1, metadata) + b"".join(field(2, item) for item in items)
    return b"k8s\0" + field(1, field(1, "v1") + field(2, "PodList")) + field(2, raw)


def test_a_list_keeps_what_is_shown_and_does_not_count_the_rest() -> None:
    body = listing(thing("a"), thing("z"), thing("b"), more="c", left=99)
    found = protobuf.parse_list(sieve.listed(body, SHOWN))
    assert found == protobuf.List("v1", "PodList", "7", "c", [thing("a"), thing("b")])
    assert b"\x20\x63" not in sieve.listed(body, SHOWN)


def test_a_namespace_is_shown_by_label_and_reference_together() -> None:
    for item, shown in (
        (thing("n", label="oil", owner="oil"), True),
        (thing("n", label="oil"), False),
        (thing("n", owner="oil"), False),
        (thing("n", label="oil", owner="wind"), False),
    ):
        body = b"k8s\0" + field(1, field(1, "v1")) + field(2, item)
        assert sieve.single(body, SHOWN) is shown


def test_lists_are_joined() -> None:
    parts = [merge.part(listing(thing("a"), version="9")), merge.part(listing(version="10"))]
    assert [(part.count, part.version, part.more) for part in parts] == [
        (1, "9", ""),
        (0, "10", ""),
    ]
    body = merge.whole(parts, kind="X", api_version="v1", version="9", more="next")
    assert merge.part(body).more == "next"
    assert protobuf.parse_list(body) == protobuf.List("v1", "PodList", "9", "next", [thing("a")])


def test_forms_are_not_mixed() -> None:
    parts = [merge.part(listing()), merge.part(b'{"kind":"PodList","items":[]}')]
    with pytest.raises(ValueError, match="forms"):
        merge.whole(parts, kind="X", api_version="v1", version="", more="")


@pytest.mark.parametrize(
    "item",
    [
        b"",
        b"\x0a",
        b"\x0a\x05abc",
        b"\x08\x01",
        thing("a") + thing("z"),
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        field(1, field(1, b"\xff\xfe")),
        b"\x0b" + thing("a"),
        b"\x0d\x00\x00",
        field(1, bytes((1 << 3, 1))),
    ],
)
def test_what_is_not_understood_is_not_shown(item: bytes) -> None:
    everything = sieve.predicate(decide.Sieve(terms.EVERYTHING))
    assert not sieve.single(b"k8s\0" + field(2, item), everything)
    assert protobuf.parse_list(sieve.listed(listing(item), everything)).items == []


@pytest.mark.parametrize("body", [b"k8s\0\x12\x09x", b"k8s\0" + field(2, b"\xff")])
def test_what_is_no_list_is_none(body: bytes) -> None:
    with pytest.raises(ValueError, match="cut short"):
        protobuf.parse_list(body)


BINARY = b"application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("accept", "lists", "reviews"),
    [
        (b"", b"application/json", b"application/json"),
        (b"*/*", b"application/json", b"application/json"),
        (b"application/json;as=Table;v=v1;g=meta.k8s.io, application/json", None, None),
        (BINARY + b", */*", BINARY + b",application/json", b"application/json"),
        (BINARY + b",application/json", BINARY + b",application/json", b"application/json"),
        (BINARY, BINARY, b"406"),
        # Which of several it is, is the API server's to choose.
        (
            BINARY + b";q=0.5, */*;q=0.1",
            BINARY + b";q=0.5,application/json;q=0.1",
            b"application/json;q=0.1",
        ),
        (BINARY + b";stream=watch", BINARY + b";stream=watch", b"406"),
        (BINARY + b";as=Table;v=v1;g=meta.k8s.io", b"406", b"406"),
        (BINARY + b";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", None, b"406"),
        (b"application/yaml", b"406", b"406"),
        (b"application/cbor, application/json;q=0.5", b"application/json;q=0.5", None),
        (b"text/jsonp", b"406", b"406"),
    ],
)
def test_what_can_be_looked_into_is_asked_for(
    accept: bytes, lists: bytes | None, reviews: bytes | None
) -> None:
    def asked(*, binary: bool) -> bytes:
        try:
            found = formats.narrowed(
                [(b"accept", accept), (b"accept-encoding", b"gzip")], binary=binary
            )
        except errors.NotAcceptable:
            return b"406"
        assert [name for name, _ in found] == [b"accept"]
        return found[0][1]

    same = accept.replace(b", ", b",")
    if accept.startswith(b"application/cbor"):
        same = b"application/json;q=0.5"
    assert asked(binary=True) == (lists if lists is not None else same)
    assert asked(binary=False) == (reviews if reviews is not None else same)
