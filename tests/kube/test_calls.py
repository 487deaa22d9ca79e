"""What a caller learns when the other side misbehaves: a raw server plays the faults."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.kube import conftest

from tenantry.api import resources
from tenantry.kube import calls, client, credentials, errors, retry, transport
from tenantry.kube import config as configs

Start = Callable[..., Awaitable[conftest.Scripted]]
OBJECT = {"metadata": {"name": "one", "namespace": "shop"}}


HALF_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


def create(connected: client.Client) -> Awaitable[dict[str, Any]]:
    return connected.create(resources.CONFIG_MAPS, OBJECT)


async def get(connected: client.Client) -> dict[str, Any]:
    return await connected.get(resources.CONFIG_MAPS, "one", "shop")


def apply(connected: client.Client) -> Awaitable[dict[str, Any]]:
    return connected.apply(resources.CONFIG_MAPS, OBJECT, field_manager="tests")


@pytest.mark.parametrize(
    "fault",
    [
        conftest.cut(),
        conftest.cut(HALF_BODY),
        conftest.cut(b"HTTP/1.1 200"),
        conftest.cut(b"nonsense\r\n\r\n"),
        conftest.reply(502, b"<html>bad gateway"),
        conftest.reply(503, b"no healthy upstream"),
        conftest.reply(504, conftest.status(504, "Timeout")),
    ],
    ids=["no answer", "half a body", "half a head", "no HTTP", "502", "503", "504"],
)
async def test_unclear_end_is_repeated_only_where_harmless(
    scripted: Start, fault: conftest.Script
) -> None:
    server = await scripted(fault, conftest.reply(200))
    async with conftest.connect(server) as connected:
        assert await get(connected) == {}
    assert len(server.heads) == 2

    server = await scripted(fault, conftest.reply(200))
    async with conftest.connect(server) as connected:
        assert await apply(connected) == {}
    assert len(server.heads) == 2

    server = await scripted(fault, conftest.reply(201))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.OutcomeUnknown) as unknown:
            await create(connected)
    assert len(server.heads) == 1
    assert unknown.value.operation == "POST /api/v1/namespaces/shop/configmaps"
    assert (unknown.value.answer is not None) == (fault.__qualname__.startswith("reply"))

    # What is only computed may be asked again.
    server = await scripted(fault, conftest.reply(201))
    async with conftest.connect(server) as connected:
        await connected.create(resources.CONFIG_MAPS, OBJECT, dry_run=True)
    assert len(server.heads) == 2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_no_write_is_repeated_on_a_connection_that_was_open(
    scripted: Start, method: str
) -> None:
    """The HTTP library would repeat PUT and DELETE by itself."""
    server = await scripted(conftest.reply(200), conftest.cut(), conftest.reply(200))
    async with conftest.connect(server) as connected:
        await connected.request("GET", "/version")
        with pytest.raises(errors.OutcomeUnknown):
            await connected.request(method, "/x", body=b"{}")
    assert len(server.heads) == 2


@pytest.mark.parametrize(
    "answer",
    [
        conftest.reply(429, conftest.status(429, "TooManyRequests"), Retry_After="0"),
        conftest.reply(503, conftest.status(503, "ServiceUnavailable"), Retry_After="0"),
        conftest.reply(
            500, conftest.status(500, "ServerTimeout", details={"retryAfterSeconds": 0.001})
        ),
        conftest.reply(429, b"slow down"),
    ],
    ids=["429", "503", "500", "429 of a proxy"],
)
async def test_what_was_surely_not_done_is_tried_again(
    scripted: Start, answer: conftest.Script
) -> None:
    server = await scripted(answer, answer, conftest.reply(201))
    seen: list[calls.Attempt] = []
    async with conftest.connect(server, observer=seen.append) as connected:
        await create(connected)
    assert len(seen) == 3
    assert seen[-1].code == 201


async def test_retry_after_beyond_the_deadline_fails_at_once(scripted: Start) -> None:
    server = await scripted(
        conftest.reply(429, conftest.status(429, "TooManyRequests"), Retry_After="60")
    )
    async with conftest.connect(server) as connected, asyncio.timeout(5):
        with pytest.raises(errors.TooManyRequests) as refused:
            await create(connected)
    assert refused.value.retry_after == 60.0
    assert len(server.heads) == 1


async def test_refusal_after_an_unclear_try_does_not_say_rejected(scripted: Start) -> None:
    server = await scripted(conftest.cut(), conftest.reply(403, conftest.status(403, "Forbidden")))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.OutcomeUnknown) as unknown:
            await apply(connected)
    assert isinstance(unknown.value.answer, errors.Forbidden)


async def test_nobody_listening_is_rejected() -> None:
    config = configs.Config(server="http://127.0.0.1:1")
    async with client.Client(config, policy=conftest.QUICK) as connected:
        for call in (get, create, apply):
            with pytest.raises(errors.Unreachable) as refused:
                await call(connected)
            assert refused.value.outcome == "rejected"
            assert isinstance(refused.value.__cause__, transport.Lost)


async def test_deadline_tells_sent_from_waiting(scripted: Start) -> None:
    server = await scripted(conftest.silence)
    async with conftest.connect(server, connections=1) as connected:
        results = await asyncio.gather(
            connected.request("POST", "/first", body=b"{}", timeout=0.4),
            connected.request("POST", "/second", body=b"{}", timeout=0.2),
            return_exceptions=True,
        )
    assert isinstance(results[0], errors.OutcomeUnknown)
    # The second never had a connection, so it surely was not done.
    assert isinstance(results[1], errors.Unreachable)
    assert len(server.heads) == 1


async def test_deadline_spans_all_tries(scripted: Start) -> None:
    server = await scripted(conftest.reply(429, b"", Retry_After="0"))
    async with client.Client(
        configs.Config(server=server.server),
        policy=retry.Policy(asked_attempts=10_000, base=0.01, cap=0.01),
        timeout=0.3,
    ) as connected:
        # Whether the last try still gets its answer is a matter of milliseconds.
        with pytest.raises((errors.TooManyRequests, errors.Unreachable)):
            async with asyncio.timeout(5):
                await get(connected)
    assert len(server.heads) > 2


async def test_cancelled_call_leaves_the_client_usable(scripted: Start) -> None:
    server = await scripted(conftest.silence, conftest.reply(200))
    async with conftest.connect(server, connections=1) as connected:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await get(connected)
        assert await get(connected) == {}


async def test_refused_token_is_read_again_once(scripted: Start, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    unauthorized = conftest.reply(401, conftest.status(401, "Unauthorized"))
    server = await scripted(unauthorized, conftest.reply(200), unauthorized)
    config = configs.Config(server=server.server, token_file=str(path))
    async with client.Client(config, policy=conftest.QUICK) as connected:
        await create(connected)
        assert len(server.heads) == 2
        with pytest.raises(errors.Unauthorized):
            await create(connected)
    assert len(server.heads) == 4


async def test_a_token_that_is_gone_for_now_ends_no_process(
    scripted: Start, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    unauthorized = conftest.reply(401, conftest.status(401, "Unauthorized"))
    server = await scripted(conftest.reply(200), unauthorized, conftest.cut(), unauthorized)
    config = configs.Config(server=server.server, token_file=str(path))
    async with client.Client(config, policy=conftest.QUICK) as connected:
        await get(connected)
        path.unlink()
        with pytest.raises(errors.Unreachable, match="no credential for now"):
            await create(connected)
        path.write_text("two")
        await asyncio.sleep(credentials.RETRY)
        await connected._caller.pools.source.get()
        path.unlink()
        # The try before the refusal may have taken effect.
        with pytest.raises(errors.OutcomeUnknown, match="no credential for now"):
            await apply(connected)


async def test_redirects_are_not_followed_with_our_token(scripted: Start) -> None:
    server = await scripted(conftest.reply(302, b"", Location="http://127.0.0.1:1/"))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.ApiError) as refused:
            await get(connected)
    assert refused.value.code == 302


async def test_headers_on_the_wire(scripted: Start) -> None:
    server = await scripted(conftest.reply(200))
    async with conftest.connect(server, user_agent="tests/1") as connected:
        view = connected.as_user(
            "alice", ["dev", "ops"], uid="u-1", extra={"Example.com/Scope": ["a", "b"]}
        )
        await get(view)
        await connected.request(
            "GET", "/version", headers=[("X-One", "1")], query={"a": "b c", "d": ""}
        )
    lines = server.heads[0].split("\r\n")
    assert lines[0] == "GET /api/v1/namespaces/shop/configmaps/one HTTP/1.1"
    assert {
        "User-Agent: tests/1",
        "Accept: application/json",
        "Accept-Encoding: gzip",
        "Authorization: Bearer abc",
        "Impersonate-User: alice",
        "Impersonate-Group: dev",
        "Impersonate-Group: ops",
        "Impersonate-Uid: u-1",
        "Impersonate-Extra-example.com%2Fscope: a",
        "Impersonate-Extra-example.com%2Fscope: b",
    } <= set(lines)
    assert server.heads[1].startswith("GET /version?a=b%20c HTTP/1.1")
    assert "X-One: 1" in server.heads[1]
    assert "Impersonate" not in server.heads[1]


@pytest.mark.parametrize("name", ["", "a\r\nX-Evil: 1", "a\nb"])
def test_identity_that_would_break_the_headers(name: str) -> None:
    with pytest.raises(errors.ConfigError, match="Impersonate-User"):
        calls.impersonation_headers(configs.Impersonate(user=name))
    with pytest.raises(errors.ConfigError, match="Impersonate-Group"):
        calls.impersonation_headers(configs.Impersonate(user="a", groups=(name,)))


async def test_http_proxy_is_used(scripted: Start) -> None:
    proxy = await scripted(conftest.reply(200))
    config = configs.Config(server="http://api.invalid/base", proxy_url=proxy.server)
    async with client.Client(config, policy=conftest.QUICK) as connected:
        await connected.request("GET", "/version")
    assert proxy.heads[0].startswith("GET http://api.invalid/base/version HTTP/1.1")
