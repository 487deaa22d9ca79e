"""Lists of several namespaces, whole and page by page, from a server that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib import parse

import msgspec
import pytest

from tenantry.gateway import decide, errors, gather, pages, paths, streams
from tenantry.httpproxy import connections, exchange, heads, upstream

TARGET = paths.Target("", "v1", "pods")


class Server:
    """An API server with pods in namespaces, which lists them page by page."""

    def __init__(self, pods: dict[str, int], *, forbidden: Sequence[str] = ()) -> None:
        self.pods = pods
        self.forbidden = frozenset(forbidden)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.paths: list[str] = []
        self.version = 100
        self.under_way = self.most = 0
        self.newest: int | None = None
        """what its cache has; who asks for more is told to come again"""

    def answer(self, target: str) -> tuple[int, dict[str, Any]]:
        path, _, text = target.partition("?")
        query = dict(parse.parse_qsl(text))
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        self.paths.append(path)
        self.asked.append((namespace, query))
        if namespace in self.forbidden:
            return 403, {"kind": "Status"}
        if "resourceVersion" in query and "continue" in query:
            return 400, {"kind": "Status", "message": "not both"}
        if self.newest is not None and int(query.get("resourceVersion", "0")) > self.newest:
            return 504, {"kind": "Status", "message": "Too large resource version"}
        self.version += 1
        begin = 0
        version = self.version
        if query.get("continue") == "expired":
            return 410, {"kind": "Status", "reason": "Expired"}
        if query.get("continue"):
            begin, version = map(int, query["continue"].split("@"))
        limit = int(query.get("limit", "1000000"))
        names = [f"{namespace}-{n}" for n in range(self.pods.get(namespace, 0))]
        metadata = {"resourceVersion": str(version)}
        if begin + limit < len(names):
            metadata["continue"] = f"{begin + limit}@{version}"
        items = [{"metadata": {"name": name}} for name in names[begin : begin + limit]]
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = heads.parse_request(await reader.readuntil(heads.END))
                self.under_way += 1
                self.most = max(self.most, self.under_way)
                await asyncio.sleep(0.001)
                code, body = self.answer(head.target.decode())
                self.under_way -= 1
                data = msgspec.json.encode(body)
                fields = [(b"content-length", b"%d" % len(data))]
                writer.write(heads.response_bytes(code, fields) + data)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def ask(
    server: Server, query: str, namespaces: Sequence[str], target: paths.Target = TARGET
) -> exchange.Answer:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    behind = upstream.Upstream([connections.Address("127.0.0.1", port)])
    try:
        order = streams.Order(behind, target.path, [], paths.parse_query(query))
        wanted = decide.Fanout(tuple(namespaces))
        return await gather.gathered(order, target, wanted, "PodList")
    finally:
        behind.close()
        listening.close()
        await listening.wait_closed()


@pytest.mark.parametrize("group", ["", "apps", "*", "namespaces"])
@pytest.mark.parametrize("plural", ["pods", "*", "namespaces"])
async def test_whatever_a_kind_is_called_it_is_asked_for_in_the_namespace(
    group: str, plural: str
) -> None:
    server = Server({})
    target = paths.Target(group, "v1", plural)
    await ask(server, "", ["a"], target)
    assert server.paths == [target.inside("a").path]


def read(answer: exchange.Answer) -> tuple[list[str], dict[str, str]]:
    assert answer.status == 200, answer.body
    body = msgspec.json.decode(answer.body)
    return [item["metadata"]["name"] for item in body["items"]], body["metadata"]


PODS = {"a": 3, "b": 0, "c": 7, "d": 1, **{f"e{n:02}": 2 for n in range(20)}}
ALL = sorted(PODS)
NAMES = [f"{namespace}-{n}" for namespace in ALL for n in range(PODS[namespace])]


async def test_all_at_once_is_the_whole() -> None:
    server = Server(PODS)
    names, metadata = read(await ask(server, "labelSelector=x", ALL))
    assert names == NAMES
    assert metadata == {"resourceVersion": "101"}
    first, *others = server.asked
    assert first == ("a", {"labelSelector": "x"})
    # As new as an answer that was of this moment, and so of it, too.
    pinned = {"resourceVersion": "101", "resourceVersionMatch": "NotOlderThan"}
    assert all(query == {"labelSelector": "x", **pinned} for _, query in others)
    assert 1 < server.most <= 8


async def test_nobody_is_refused_for_a_version_they_did_not_ask_for() -> None:
    server = Server(PODS)
    server.newest = 50
    names, _ = read(await ask(server, "", ALL))
    assert names == NAMES


@pytest.mark.parametrize(
    "query",
    ["resourceVersion=7", "resourceVersion=0", "resourceVersion=7&resourceVersionMatch=Exact"],
)
async def test_who_asks_for_a_version_gets_that_everywhere(query: str) -> None:
    server = Server(PODS)
    await ask(server, query, ALL)
    assert [asked for _, asked in server.asked] == [dict(parse.parse_qsl(query))] * len(ALL)


async def test_a_version_is_not_taken_from_who_refuses() -> None:
    server = Server(PODS, forbidden=["a"])
    names, _ = read(await ask(server, "", ALL))
    assert names == [name for name in NAMES if not name.startswith("a")]
    assert all("resourceVersion" not in query for _, query in server.asked)


async def test_later_pages_are_no_older_than_the_first() -> None:
    server = Server(PODS)
    token = pages.Token("c", "", "101").written()
    read(await ask(server, f"limit=500&continue={token}", ALL))
    assert {query["resourceVersion"] for _, query in server.asked} == {"101"}


async def test_a_page_is_not_asked_of_many_more_than_have_room() -> None:
    """What would be read in vain is the API server's work."""
    server = Server({f"n{number:03}": 5 for number in range(100)})
    names, metadata = read(await ask(server, "limit=50", sorted(server.pods)))
    assert len(names) == 50
    assert metadata["continue"]
    assert len(server.asked) <= 18
    empty = Server({f"n{number:03}": 0 for number in range(100)})
    read(await ask(empty, "limit=500", sorted(empty.pods)))
    assert len(empty.asked) == 100


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 10, 11, 50, 51, 500])
async def test_pages_are_the_whole_in_order_and_none_is_longer(limit: int) -> None:
    server = Server(PODS, forbidden=["e03"])
    expected = [name for name in NAMES if not name.startswith("e03")]
    found: list[str] = []
    text, versions = "", set()
    for _ in range(len(NAMES) + 2):
        query = parse.urlencode({"limit": limit, **({"continue": text} if text else {})})
        names, metadata = read(await ask(server, query, ALL))
        assert len(names) <= limit
        found += names
        versions.add(metadata["resourceVersion"])
        text = metadata.get("continue", "")
        if not text:
            break
    assert found == expected
    # Whoever watches from the list's version misses nothing: all pages tell the first one's.
    assert versions == {"101"}


async def test_what_the_cache_answers_is_not_paged() -> None:
    server = Server(PODS)
    names, _ = read(await ask(server, "limit=2&resourceVersion=0", ALL))
    assert names == NAMES


async def test_a_changed_token_shows_nothing_that_is_not_the_callers() -> None:
    """Only namespaces of the decision are asked about, and each in the caller's own name."""
    server = Server({**PODS, "secret": 5})
    token = pages.Token("secret", "0@1", "1").written()
    names, _ = read(await ask(server, f"limit=5&continue={token}", ["a", "c"]))
    assert names == []
    assert server.asked == []
    token = pages.Token("", "", "1").written()
    names, _ = read(await ask(server, f"limit=50&continue={token}", ["a", "c"]))
    assert names == NAMES[:10]


@pytest.mark.parametrize(
    "query", ["continue=x", "continue=%FF", "limit=-1", "limit=x", "limit=1e3"]
)
async def test_nonsense_is_refused(query: str) -> None:
    try:
        answer = await ask(Server(PODS), query, ALL)
    except errors.Malformed:
        return
    assert answer.status == 400
    assert msgspec.json.decode(answer.body)["kind"] == "Status"


async def test_a_token_that_is_too_old_is_said_so() -> None:
    token = pages.Token("c", "expired", "1").written()
    answer = await ask(Server(PODS), f"limit=2&continue={token}", ALL)
    assert answer.status == 410


@pytest.mark.parametrize(
    "text", ["", "!", "e30", "WzIsImEiLCIiLCIiXQ", "WzEsImEiLCIiLCJ4Il0", "A" * 20000]
)
def test_tokens_of_others_are_refused(text: str) -> None:
    with pytest.raises(errors.Malformed, match="continue key"):
        pages.read(text)


def test_a_token_says_what_it_was_told() -> None:
    token = pages.Token("ns", "inner", "12")
    assert pages.read(token.written()) == token
