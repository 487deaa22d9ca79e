from __future__ import annotations

import aiohttp

from tenantry.runtime import health, metrics


async def fetch(server: health.Server, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_tells_what_is_wrong() -> None:
    registry = metrics.Registry()
    registry.counter("a_total", "A.").inc()
    server = health.Server("127.0.0.1", 0, registry=registry)
    wrong = "waiting for tenants"
    server.ready.add("caches", lambda: wrong)
    server.ready.add("webhook", lambda: "")

    def broken() -> str:
        raise LookupError("x")

    server.also("127.0.0.1", 0)
    assert server.port == 0
    await server.start()
    try:
        assert await fetch(server, "/readyz") == (
            500,
            "[-]caches failed: waiting for tenants\n[+]webhook ok\nfailed\n",
        )
        wrong = ""
        assert await fetch(server, "/readyz") == (200, "ok")
        assert await fetch(server, "/readyz?verbose") == (200, "[+]caches ok\n[+]webhook ok\nok\n")
        server.ready.note("leader", lambda: "waiting for the lease, held by one")
        server.ready.note("nothing", lambda: "")
        assert await fetch(server, "/readyz") == (200, "ok")
        assert await fetch(server, "/readyz?verbose") == (
            200,
            "[+]caches ok\n[+]webhook ok\n[ ]leader waiting for the lease, held by one\nok\n",
        )
        code, text = await fetch(server, "/readyz?leading")
        assert code == 500
        assert "leader failed: waiting for the lease, held by one" in text
        server.healthy.add("broken", broken)
        code, text = await fetch(server, "/healthz")
        assert code == 500
        assert "check failed" in text
        assert "a_total 1" in (await fetch(server, "/metrics"))[1]
    finally:
        await server.stop()
        await server.stop()
