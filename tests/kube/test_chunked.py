from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.kube import chunked


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 30)))
def test_content_is_the_same_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    wire = b"".join(map(chunk, parts)) + b"0\r\n\r\n"
    machine, content, rest, at = chunked.Dechunker(), b"", None, 0
    for cut in [*cuts, len(wire)]:
        found, rest = machine.feed(wire[at : at + cut])
        content += found
        at += cut
        if rest is not None:
            break
    assert content == b"".join(parts)
    # The end is left to the other parser, whole and from its beginning.
    assert rest is not None
    assert rest + wire[at:] == b"0\r\n\r\n"


@pytest.mark.parametrize(
    "odd",
    [b"5;name=value\r\nhello\r\n", b"-5\r\nhello\r\n", b"xyz\r\n", b"0123456789\r\n", b"5 \r\n"],
)
def test_what_is_unusual_is_left_to_the_other_parser(odd: bytes) -> None:
    assert chunked.Dechunker().feed(chunk(b"a") + odd) == (b"a", odd)


@pytest.mark.parametrize("wire", [b"1\r\naXY", b"1\r\na\rX"])
def test_a_chunk_longer_than_its_size_makes_the_other_parser_complain(wire: bytes) -> None:
    content, rest = chunked.Dechunker().feed(wire)
    assert content == b"a"
    assert rest == b"!"
