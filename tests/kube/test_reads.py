"""Lists that cannot be completed, and how answers are encoded."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.kube import conftest

from tenantry.api import resources
from tenantry.kube import errors

Start = Callable[..., Awaitable[conftest.Scripted]]


async def test_gzip_is_understood(scripted: Start) -> None:
    server = await scripted(conftest.reply(200, gzip.compress(b'{"a":1}'), Content_Encoding="gzip"))
    async with conftest.connect(server) as connected:
        assert await connected.get(resources.CONFIG_MAPS, "one", "shop") == {"a": 1}


def page(*names: str, token: str = "") -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": "5", "continue": token},
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_list_that_expires_twice_is_read_in_one_piece(scripted: Start) -> None:
    gone = conftest.reply(410, conftest.status(410, "Expired"))
    server = await scripted(
        conftest.reply(200, page("a", token="t")),
        gone,
        conftest.reply(200, page("a", token="t")),
        gone,
        conftest.reply(200, page("a", "b")),
    )
    async with conftest.connect(server) as connected:
        whole = await connected.list(resources.PODS, resource_version="3")
    assert len(whole.items) == 2
    assert [head.split(" ")[1] for head in server.heads] == [
        "/api/v1/pods?limit=500&resourceVersion=3&resourceVersionMatch=NotOlderThan",
        "/api/v1/pods?limit=500&continue=t",
        "/api/v1/pods?limit=500&resourceVersion=3&resourceVersionMatch=NotOlderThan",
        "/api/v1/pods?limit=500&continue=t",
        "/api/v1/pods?resourceVersion=3&resourceVersionMatch=NotOlderThan",
    ]


async def test_list_whose_version_is_gone_at_once_is_not_repeated(scripted: Start) -> None:
    server = await scripted(conftest.reply(410, conftest.status(410, "Expired")))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.Gone):
            await connected.list(resources.PODS, resource_version="3")
    assert len(server.heads) == 1


async def test_null_items_are_an_empty_list(scripted: Start) -> None:
    server = await scripted(
        conftest.reply(200, {"metadata": {"resourceVersion": "1"}, "items": None})
    )
    async with conftest.connect(server) as connected:
        assert (await connected.list(resources.PODS)).items == []


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(scripted: Start) -> None:
    large = conftest.reply(200, page(*(f"object-{number}" * 9 for number in range(100))))
    server = await scripted(
        large,
        large,
        conftest.reply(200, page("a", token="t")),
        large,
        conftest.reply(200, page("b")),
    )
    async with conftest.connect(server, longest_answer=1000) as connected:
        whole = await connected.list(resources.PODS)
    assert len(whole.items) == 2
    assert [head.split(" ")[1] for head in server.heads] == [
        "/api/v1/pods?limit=500",
        "/api/v1/pods?limit=125",
        "/api/v1/pods?limit=31",
        "/api/v1/pods?limit=31&continue=t",
        "/api/v1/pods?limit=7&continue=t",
    ]


async def test_an_object_too_large_to_be_taken_is_read_once(scripted: Start) -> None:
    bomb = gzip.compress(b'{"a":"' + b"0" * 10_000_000 + b'"}')
    assert len(bomb) < 20_000
    server = await scripted(conftest.reply(200, bomb, Content_Encoding="gzip"))
    async with conftest.connect(server, longest_answer=100_000) as connected:
        with pytest.raises(errors.AnswerTooLarge, match=r"/configmaps/one.*more than 100000 bytes"):
            await connected.get(resources.CONFIG_MAPS, "one", "shop")
        with pytest.raises(errors.AnswerTooLarge):
            await connected.list(resources.CONFIG_MAPS)
    # 500, 125, 31, 7, 1: then even one object is too large.
    assert len(server.heads) == 1 + 5


async def test_a_write_whose_answer_is_too_large_may_have_happened(scripted: Start) -> None:
    server = await scripted(conftest.reply(201, b'{"a":"' + b"0" * 200_000 + b'"}'))
    async with conftest.connect(server, longest_answer=100_000) as connected:
        with pytest.raises(errors.OutcomeUnknown, match="more than 100000 bytes"):
            await connected.create(
                resources.CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "shop"}}
            )
    assert len(server.heads) == 1


async def test_a_refusal_too_large_to_be_read_is_a_refusal_of_a_watch(scripted: Start) -> None:
    server = await scripted(conftest.reply(403, b"0" * 200_000))
    async with conftest.connect(server, longest_answer=100_000) as connected:
        with pytest.raises(errors.Forbidden):
            async with connected.watch(resources.PODS):
                pass
