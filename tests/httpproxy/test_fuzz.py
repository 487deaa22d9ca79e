"""Heads that nobody would send. What is accepted must mean one thing, however it is read."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.httpproxy import errors, heads

#: Seconds of a long run.
SECONDS = 60.0
HEADERS = [
        b"Host: h", b"Host:", b"host: x", b"Content-Length: 5", b"Content-Length: 05",
        b"Content-Length: 5,5", b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked",
        b"Transfer-Encoding : chunked", b"transfer-encoding: gzip", b"Connection: close",
        b"Connection: Authorization", b"Connection: upgrade", b"Upgrade: websocket",
        b"Authorization: Bearer a", b"Impersonate-User: a", b"X: y", b" folded", b"\tfolded",
        b"X:\x0bz", b"X: \xff", b"NoColon", b": empty", b"Expect: 100-continue",
]  # fmt: skip
FIRSTS = [
        b"GET / HTTP/1.1", b"POST /a?b HTTP/1.1", b"GET  / HTTP/1.1", b"GET http://h/ HTTP/1.1",
        b"GET / HTTP/1.0", b"get / HTTP/1.1", b"GET /", b"PRI * HTTP/2.0",
]  # fmt: skip
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"])
HEADS = st.builds(
    lambda first, lines: first + b"".join(end + line for end, line in lines) + heads.END,
    st.sampled_from(FIRSTS),
    st.lists(st.tuples(ENDS, st.sampled_from(HEADERS)), max_size=6),
)
#: A second reading of the grammar, by nothing but an expression.
EXACT = re.compile(
    rb"[A-Z]+ /[!-~]* HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)+\r\n"
)


def check(block: bytes) -> None:
    try:
        head = heads.parse_request(block)
    except errors.BadMessageError:
        return
    assert EXACT.fullmatch(block), block
    names = [name for name, _ in head.headers]
    assert names == [line.partition(b":")[0].lower() for line in block[:-4].split(b"\r\n")[1:]], (
        block
    )
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    again = heads.parse_request(heads.request_bytes(head.method, head.target, head.headers))
    assert again == head


@given(HEADS)
def test_heads(block: bytes) -> None:
    check(block)


@pytest.mark.long
def test_heads_for_long() -> None:
    dice = random.Random(20)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        block = dice.choice(FIRSTS)
        for _ in range(dice.randrange(7)):
            block += dice.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r")) + dice.choice(HEADERS)
        block += heads.END
        if dice.random() < 0.5:
            # One byte that is not what it was.
            place = dice.randrange(len(block) - 4)
            block = block[:place] + bytes((dice.randrange(256),)) + block[place + 1 :]
        if heads.END not in block[:-4]:
            check(block)
