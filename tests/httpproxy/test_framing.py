from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.httpproxy import errors, framing


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[index : index + size] for index in range(0, len(data), size)]


@given(st.lists(st.binary(min_size=1, max_size=40)), st.integers(1, 50), st.binary(max_size=20))
def test_chunks_in_any_pieces_give_their_payload(
    parts: list[bytes], size: int, rest: bytes
) -> None:
    framed = b"".join(map(framing.chunk, parts)) + framing.LAST_CHUNK
    framer, sink, taken = framing.Chunked(), list[bytes](), 0
    for piece in pieces(framed + rest, size):
        end = framer.feed(piece, 0, sink)
        taken += end
        if framer.done:
            break
    assert framer.done
    assert taken == len(framed)
    assert b"".join(sink) == b"".join(parts)


@pytest.mark.parametrize(
    "bad",
    [
        b"x\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1;ext\r\na\r\n",
        b"\r\n",
        b"1\na\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\n",
        b"123456789\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"0\r\n\n",
        b"1111111111111111",
    ],
)
def test_other_framing_is_refused(bad: bytes) -> None:
    framer = framing.Chunked()
    with pytest.raises(errors.BadMessageError):
        framer.feed(bad)
    again = framing.Chunked()
    with pytest.raises(errors.BadMessageError):
        for piece in pieces(bad, 1):
            again.feed(piece)


def test_a_length_takes_no_more_than_its_own() -> None:
    framer, sink = framing.Length(3), list[bytes]()
    assert (framer.feed(b"ab", 0, sink), framer.left) == (2, 1)
    assert (framer.feed(b"cde", 0, sink), framer.left) == (1, 0)
    assert framer.done
    assert b"".join(sink) == b"abc"


def test_between_two_chunks_another_may_be_written() -> None:
    framer, seen = framing.Chunked(), list[tuple[bool, bytes]]()
    for piece in (b"3\r\nab", b"\n\r\n", b"1"):
        framer.feed(piece)
        seen.append((framer.between, framer.last))
    assert seen == [(False, b""), (True, b"\n"), (False, b"\n")]
