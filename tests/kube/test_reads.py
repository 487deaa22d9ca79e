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
