from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest

from tenantry.kube import warning

from .conftest import Scripted, connect, reply


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        ([], []),
        (['299 - "v1 Endpoints is deprecated"'], ["v1 Endpoints is deprecated"]),
        (['299 - "a", 299 kube-apiserver "b"'], ["a", "b"]),
        (['299 - "say \\"please\\", and \\\\ thanks"'], ['say "please", and \\ thanks']),
        (['199 - "misc"', "nonsense", '299 - ""'], []),
    ],
)
def test_texts(headers: list[str], texts: list[str]) -> None:
    assert warning.parse(headers) == texts


def test_each_text_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = warning.Log()
    with caplog.at_level(logging.WARNING):
        for text in ("a", "b", "a"):
            log(text)
        for number in range(1000):
            log(f"many {number}")
    assert [record.__dict__["text"] for record in caplog.records[:2]] == ["a", "b"]
    assert len(caplog.records) == 256


async def test_a_client_hands_on_what_the_server_says(
    scripted: Callable[..., Awaitable[Scripted]],
) -> None:
    server = await scripted(reply(200, Warning='299 - "old"'), reply(403, Warning='299 - "no"'))
    heard: list[str] = []
    async with connect(server, on_warning=heard.append) as client:
        view = client.as_user("alice")
        await view.request("GET", "/version")
        with pytest.raises(Exception, match="403"):
            await client.request("GET", "/version")
    assert heard == ["old", "no"]
