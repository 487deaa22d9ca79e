"""One port for probes and metrics: `/healthz`, `/readyz`, `/metrics`.

A standby is ready, for a rollout must not wait for it to lead. `/readyz?leading` asks whether the
process does its work: it also fails while something is noted, such as waiting for the Lease.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from tenantry.runtime import metrics

#: A check answers "" when all is well, else what is wrong.
Check = Callable[[], str]


class Checks:
    """Named checks of one probe."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self._notes: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check."""
        self._checks[name] = check

    def note(self, name: str, say: Check) -> None:
        """Add something to be told with `?verbose` that makes nothing fail; "" when it is nothing."""
        self._notes[name] = say

    def noted(self) -> dict[str, str]:
        """Return what is to be told, by name."""
        return {name: text for name, say in self._notes.items() if (text := say())}

    def failing(self) -> dict[str, str]:
        """Return what is wrong, by name."""
        found: dict[str, str] = {}
        for name, check in self._checks.items():
            try:
                wrong = check()
            except Exception as error:
                wrong = f"check failed: {error!r}"
            if wrong:
                found[name] = wrong
        return found

    def names(self) -> list[str]:
        """Return the names of all checks."""
        return list(self._checks)


class Server:
    """Serve the probes in plain HTTP."""

    def __init__(self, host: str, port: int, *, registry: metrics.Registry) -> None:
        self._host = host
        self._port = port
        self._registry = registry
        self.healthy = Checks()
        self.ready = Checks()
        self._runner: web.AppRunner | None = None
        self._more: list[tuple[str, int, ssl.SSLContext | None]] = []

    def also(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Listen at another address as well; before `start`."""
        self._more.append((host, port, tls))

    @property
    def port(self) -> int:
        """The port listened on, also when 0 was asked for."""
        if self._runner is None or not self._runner.addresses:
            return self._port
        port: int = self._runner.addresses[0][1]
        return port

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        for end in ("", "/"):
            # Capsule Proxy's chart asks with a slash at the end.
            app.router.add_get(f"/healthz{end}", self._probe(self.healthy))
            app.router.add_get(f"/readyz{end}", self._probe(self.ready))
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        for host, port, tls in self._more:
            await web.TCPSite(self._runner, host, port, ssl_context=tls).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _probe(self, checks: Checks) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            failing, noted = checks.failing(), checks.noted()
            if "leading" in request.query:
                failing |= noted
            if failing or "verbose" in request.query:
                text = _report(checks.names(), failing, noted)
            else:
                text = "ok"
            return web.Response(text=text, status=500 if failing else 200)

        return handler

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=self._registry.exposition().encode(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )


def _report(names: list[str], failing: Mapping[str, str], noted: Mapping[str, str]) -> str:
    lines = [
        f"[-]{name} failed: {failing[name]}" if name in failing else f"[+]{name} ok"
        for name in names
    ]
    for name, text in noted.items():
        lines.append(f"[-]{name} failed: {text}" if name in failing else f"[ ]{name} {text}")
    return "".join(f"{line}\n" for line in [*lines, "failed" if failing else "ok"])
