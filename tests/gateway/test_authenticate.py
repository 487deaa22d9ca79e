"""How often the API server is asked who somebody is, and what becomes of its answers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tenantry.gateway import authenticate, errors, upstreams
from tenantry.kube import config
from tenantry.kube import errors as kube_errors


class Server:
    """Answers token reviews, when it is let."""

    def __init__(self, answer: Callable[[str], dict[str, Any]]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def create(self, _resource: Any, body: dict[str, Any], **_: Any) -> dict[str, Any]:
        token = body["spec"]["token"]
        self.asked.append(token)
        await self.go.wait()
        return {"status": self.answer(token)}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def accepted(token: str) -> dict[str, Any]:
    return {"authenticated": True, "user": {"username": f"user-{token}", "groups": ["g"]}}


def refused(_: str) -> dict[str, Any]:
    return {"authenticated": False, "error": "no such token"}


def caller(token: str) -> authenticate.Caller:
    return authenticate.Caller(token, None, None, token.encode())


def make(
    answer: Callable[[str], dict[str, Any]],
) -> tuple[authenticate.Authenticator, Server, Clock]:
    server, clock = Server(answer), Clock()
    servers = upstreams.Upstreams(config.Config(server="http://127.0.0.1:1"))
    client: Any = server
    options = authenticate.Options()
    found = authenticate.Authenticator(client, servers, options, wall=clock, monotonic=clock)
    return found, server, clock


async def test_an_answer_holds_for_ten_seconds() -> None:
    found, server, clock = make(accepted)
    for _ in range(5):
        assert (await found.identify(caller("a"))).user == "user-a"
    assert server.asked == ["a"]
    clock.now += 10.0
    await found.identify(caller("a"))
    assert server.asked == ["a", "a"]


async def test_who_must_be_told_for_longer_is_asked_sooner() -> None:
    found, server, clock = make(accepted)
    await found.identify(caller("a"))
    clock.now += 4.9
    await found.identify(caller("a"), margin=5.0)
    assert len(server.asked) == 1
    clock.now += 0.2
    await found.identify(caller("a"), margin=5.0)
    assert len(server.asked) == 2


async def test_all_who_wait_share_one_question_and_none_spoils_it() -> None:
    found, server, _ = make(accepted)
    server.go.clear()
    waiting = [asyncio.create_task(found.identify(caller("a"))) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting[0].cancel()
    server.go.set()
    users = await asyncio.gather(*waiting[1:])
    assert {who.user for who in users} == {"user-a"}
    assert server.asked == ["a"]


async def test_a_refusal_is_remembered_for_two_seconds() -> None:
    found, server, clock = make(refused)
    for _ in range(5):
        with pytest.raises(errors.Unauthenticated, match="no such token"):
            await found.identify(caller("a"))
    assert server.asked == ["a"]
    clock.now += 2.0
    server.answer = accepted
    assert (await found.identify(caller("a"))).user == "user-a"


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False},
        {"authenticated": True, "user": {}},
    ],
)
async def test_only_a_plain_yes_is_a_yes(status: dict[str, Any]) -> None:
    found, _, _ = make(lambda _: status)
    with pytest.raises(errors.Unauthenticated):
        await found.identify(caller("a"))


async def test_no_answer_is_neither_yes_nor_no() -> None:
    def broken(_: str) -> dict[str, Any]:
        raise kube_errors.Unreachable("down")

    found, server, _ = make(broken)
    with pytest.raises(errors.Refused) as caught:
        await found.identify(caller("a"))
    assert caught.value.code == 503
    server.answer = accepted
    assert (await found.identify(caller("a"))).user == "user-a"


async def test_an_answer_does_not_outlive_its_token() -> None:
    found, server, clock = make(accepted)
    claims = base64.urlsafe_b64encode(msgspec.json.encode({"exp": clock.now + 3})).rstrip(b"=")
    token = f"e30.{claims.decode()}.sig"
    await found.identify(caller(token))
    clock.now += 3.0
    await found.identify(caller(token))
    assert len(server.asked) == 2


async def test_a_flood_of_bad_tokens_does_not_push_out_good_ones() -> None:
    found, server, _ = make(lambda token: accepted(token) if token == "good" else refused(token))
    await found.identify(caller("good"))
    for number in range(3000):
        with pytest.raises(errors.Unauthenticated):
            await found.identify(caller(f"bad-{number}"))
    asked = len(server.asked)
    assert (await found.identify(caller("good"))).user == "user-good"
    assert len(server.asked) == asked
    assert len(found._refused) == 1000
