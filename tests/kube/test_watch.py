from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry.kube import errors, watch


@settings(deadline=None)  # how long is no question here
@given(
    lines=st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=12),
    cuts=st.lists(st.integers(0, 500), max_size=12),
)
def test_lines_do_not_depend_on_how_chunks_were_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = watch.Splitter()
    seen = [
        line
        for begin, end in itertools.pairwise(edges)
        for line in splitter.feed(stream[begin:end])
    ]
    assert seen == [line for line in lines if line.strip()]
    assert splitter.pending == 0


def test_unfinished_line_is_held() -> None:
    splitter = watch.Splitter()
    assert splitter.feed(b'{"type":') == []
    assert splitter.pending == 8
    assert splitter.feed(b'"ADDED"}\n{"x"') == [b'{"type":"ADDED"}']
    assert splitter.pending == 4
    assert splitter.feed(b"}\r\n\r\n\n") == [b'{"x"}\r']
    assert splitter.pending == 0


def test_line_over_the_bound_ends_the_stream() -> None:
    splitter = watch.Splitter(max_line=10)
    assert splitter.feed(b"0123456789\n") == [b"0123456789"]
    with pytest.raises(errors.Unreachable, match="over 10 bytes"):
        watch.Splitter(max_line=10).feed(b"01234567890\n")
    splitter.feed(b"012345")
    with pytest.raises(errors.Unreachable, match="over 10 bytes"):
        splitter.feed(b"67890")


def test_decode_keeps_the_object_raw() -> None:
    event = watch.decode(
        b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7","annotations":null}}}'
    )
    assert event.type == "ADDED"
    assert msgspec.json.decode(event.raw_object)["metadata"]["resourceVersion"] == "7"
    assert watch.version(event) == "7"
    assert not watch.ends_initial_events(event)


@pytest.mark.parametrize(
    ("annotations", "ends"),
    [
        ("{}", False),
        ("null", False),
        ('{"k8s.io/initial-events-end":"true"}', True),
        ('{"k8s.io/initial-events-end":"false"}', False),
    ],
)
def test_bookmark_that_ends_the_initial_events(annotations: str, ends: bool) -> None:
    line = f'{{"type":"BOOKMARK","object":{{"metadata":{{"annotations":{annotations}}}}}}}'
    assert watch.ends_initial_events(watch.decode(line.encode())) is ends


def test_error_event_has_no_version() -> None:
    event = watch.decode(
        b'{"type":"ERROR","object":{"kind":"Status","metadata":{"resourceVersion":"9"},'
        b'"code":410,"reason":"Expired","message":"too old resource version"}}'
    )
    assert watch.version(event) == ""
    error = watch.error_of(event)
    assert isinstance(error, errors.Gone)
    assert error.message == "too old resource version"


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"null", b'{"type":"ADDED"}', b'{"type":"NEW","object":{}}', b'"\xff"', b"[]"],
)
def test_what_is_no_event_breaks_the_stream(line: bytes) -> None:
    with pytest.raises(errors.Unreachable, match="no event"):
        watch.decode(line)


def test_event_without_metadata() -> None:
    assert watch.version(watch.decode(b'{"type":"ADDED","object":{}}')) == ""
    with pytest.raises(errors.Unreachable, match="no metadata"):
        watch.version(watch.decode(b'{"type":"ADDED","object":[]}'))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"type":"ADDED","object":{"a":{}}}', ("ADDED", b'{"a":{}}')),
        (b'{"type":"DELETED","object":{"a":{"b":1}}}', ("DELETED", b'{"a":{"b":1}}')),
        (b'{"type":"BOOKMARK","object":{"a":{}}}', None),
        (b'{"type":"ERROR","object":{"a":{}}}', None),
        (b'{"object":{"a":{}},"type":"ADDED"}', None),
        (b'{"type":"ADDED", "object":{"a":{}}}', None),
        (b'{"type":"ADDED","object":{"a":1', None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_changes_are_cut_without_parsing(line: bytes, found: tuple[str, bytes] | None) -> None:
    assert watch.change(line) == found
    if found is not None:
        event = watch.decode(line)
        assert (event.type, bytes(event.raw_object)) == found
