from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.httpproxy import pipelining

OK = b"HTTP/1.1 200 OK\r\n"
ONE = OK + b"Content-Length: 2\r\n\r\nok"
#: As a server may write an answer -> status and body.
WRITTEN = [
    (ONE, 200, b"ok"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 200, b"abc"),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ONE, 200, b"ok"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, b""),
    (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403, b""),
]


def fed(
    owed: int, data: bytes, size: int = 0
) -> tuple[pipelining.Answers, list[tuple[int, bytes]]]:
    answers = pipelining.Answers(owed, lambda _: None)
    size = size or len(data)
    found = [one for at in range(0, len(data), size) for one in answers.feed(data[at : at + size])]
    return answers, [(one.status, one.body) for one in found]


@given(st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=9), st.integers(1, 90))
def test_answers_in_any_pieces(written: list[tuple[bytes, int, bytes]], size: int) -> None:
    answers, found = fed(len(written), b"".join(data for data, _, _ in written), size)
    assert found == [(status, body) for _, status, body in written]
    assert answers.over
    assert answers.reusable
    assert not answers.begun


def test_headers_are_as_elsewhere_and_each_piece_is_told() -> None:
    took: list[int] = []
    answers = pipelining.Answers(2, took.append)
    (found,) = answers.feed(OK + b"Content-Type:  a/b \r\nContent-Length: 3\r\n\r\nabc")
    assert found.headers == [(b"content-type", b"a/b"), (b"content-length", b"3")]
    assert took == [3]
    assert not answers.over


@pytest.mark.parametrize(
    ("data", "count"),
    [
        # What could be read in two ways.
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", 0),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\noka", 0),
        (OK + b"Content-Length: 2, 2\r\n\r\nok", 0),
        (OK + b"Content-Length: -2\r\n\r\nok", 0),
        (OK + b"Content-Length : 2\r\n\r\nok", 0),
        (OK + b"Content-Length: 99999999999999999999999\r\n\r\nok", 0),
        (OK + b"X: y\nContent-Length: 2\r\n\r\nok", 0),
        (OK + b"X: y\rContent-Length: 2\r\n\r\nok", 0),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 0),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", 0),
        # Other protocols.
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 0),
        (b"nonsense\r\n\r\n", 0),
        # After good ones.
        (ONE + b"nonsense\r\n\r\n", 1),
        (ONE + ONE + b"H", 2),
        (ONE * 3, 2),
        (OK + b"X: " + b"y" * 300_000, 0),
    ],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_nobodys(data: bytes, count: int) -> None:
    for size in (0, 7) if len(data) < 1000 else (0, 65_536):
        answers, found = fed(2, data, size)
        assert found == [(200, b"ok")] * count
        assert answers.over
        assert not answers.reusable


def test_who_closes_owes_the_rest_to_others() -> None:
    closing = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"
    answers, found = fed(2, closing + ONE)
    assert found == [(200, b"ok")]
    assert (answers.over, answers.owed, answers.begun) == (True, 1, False)
    assert not answers.reusable
    assert answers.feed(ONE) == []


def test_an_answer_may_end_with_the_connection() -> None:
    answers, found = fed(1, OK + b"X: y\r\n\r\nab")
    assert (found, answers.over) == ([], False)
    (last,) = answers.end()
    assert last.body == b"ab"
    assert (answers.over, answers.reusable, answers.owed) == (True, False, 0)


@pytest.mark.parametrize(
    "data",
    [OK + b"Content-Length: 3\r\n\r\nab", OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
     OK + b"X: y\r\n", ONE],
)  # fmt: skip
def test_one_that_is_cut_off_is_none(data: bytes) -> None:
    answers, _ = fed(2, data)
    assert answers.end() == []
    assert answers.owed
