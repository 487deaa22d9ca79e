"""A webhook server that goes away serves as long as it is asked, but not for ever."""

from __future__ import annotations

import asyncio
import json
import ssl
import time

import aiohttp

from tenantry.pki import authority
from tenantry.runtime import admission, timing, webhook

#: At least 1.2 s, then as long as reviews come within 10 looks of each other, at most 2.8 s.
T = timing.Timing(drain=1.2, grace=4.0)
CA = authority.Authority.create("draining", time.time())
BODY = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
        },
    }
).encode()


async def allow(_review: admission.Review) -> admission.Verdict:
    return admission.Verdict()


async def stopped_after(asking: float) -> tuple[float, int, list[str]]:
    """Ask for so many seconds while the server stops; gives its time, answers, and failures."""
    issued = CA.issue_server(["127.0.0.1"], time.time())
    server = webhook.Server("127.0.0.1", 0, certificate=lambda: (issued.cert, issued.key), timing=T)
    server.route("/", allow)
    await server.start()
    url = f"https://127.0.0.1:{server.port}/"
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context(cadata=CA.cert.decode())
    answers, failures = 0, []
    began = loop.time()
    stopping = asyncio.create_task(server.stop())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def ask() -> None:
            nonlocal answers
            while loop.time() < began + asking and not stopping.done():
                try:
                    async with session.post(url, data=BODY) as answer:
                        assert answer.status == 200
                        answers += 1
                except aiohttp.ClientError as error:
                    failures.append(str(error))
                await asyncio.sleep(0.02)

        # Several, so that there is no quiet moment on a busy machine either.
        await asyncio.gather(*(ask() for _ in range(4)))
        await stopping
        took = loop.time() - began
    return took, answers, failures


async def test_quiet_ends_it() -> None:
    took, _, _ = await stopped_after(0.0)
    assert 1.2 <= took < 3.0


async def test_it_serves_as_long_as_it_is_asked() -> None:
    took, answers, failures = await stopped_after(2.0)
    assert not failures
    assert answers > 1
    assert took >= 2.0


async def test_but_not_for_ever() -> None:
    took, answers, _ = await stopped_after(20.0)
    assert answers > 1
    assert 2.7 <= took < 8.0
