from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pathlib
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors
from tenantry.pki import authority
from tenantry.runtime import admission, metrics, timing, webhook

from .conftest import Until, config_map

CA = authority.Authority.create("webhook-tests", time.time())


def pair() -> tuple[bytes, bytes]:
    issued = CA.issue_server(("localhost", "127.0.0.1"), time.time())
    return issued.cert, issued.key


async def allow(review: admission.Review) -> admission.Verdict:
    return admission.Verdict(warnings=("careful",), audit_annotations={"a": "b"})


async def patch(review: admission.Review) -> admission.Verdict:
    assert review.object is not None
    return admission.Verdict(
        patch=({"op": "add", "path": "/data/added", "value": review.operation},)
    )


async def deny(review: admission.Review) -> admission.Verdict:
    return admission.denied(f"user {review.user.username} may not {review.operation}")


async def explode(review: admission.Review) -> admission.Verdict:
    raise RuntimeError("secret detail")


async def hang(review: admission.Review) -> admission.Verdict:
    await asyncio.Event().wait()
    raise AssertionError


class Bench:
    def __init__(self, **more: Any) -> None:
        self.registry = metrics.Registry()
        self.server = webhook.Server(
            "127.0.0.1", 0, certificate=pair, registry=self.registry, **more
        )
        self.server.route("/allow", allow)
        self.server.route("/patch", patch)
        self.server.route("/deny", deny)
        self.server.route("/explode", explode)
        self.server.route("/hang", hang)
        context = ssl.create_default_context(cadata=CA.cert.decode())
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def post(self, path: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with self.session.post(url, data=body) as answer:
            raw = await answer.read()
            try:
                return answer.status, json.loads(raw), dict(answer.headers)
            except ValueError:
                return answer.status, raw.decode(), dict(answer.headers)

    def requests(self, path: str, code: str) -> float:
        counter = self.registry.counter(
            "controller_runtime_webhook_requests_total", "", ("webhook", "code")
        )
        return counter.value(path, code)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(timing=timing.Timing().scaled(0.01), max_body=100_000)
    await made.server.start()
    yield made
    await made.session.close()
    await made.server.stop()


def message(**more: Any) -> bytes:
    request = {
        "uid": "r-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a",
        "namespace": "ns",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["g"], "extra": {"k": ["v"]}},
        "object": {"metadata": {"name": "a"}},
        "oldObject": None,
        "dryRun": True,
        **more,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def test_reads_the_wire_form() -> None:
    review = webhook.decode(message(subResource="status", oldObject={"x": 1}))
    assert review == admission.Review(
        uid="r-1",
        operation="CREATE",
        group="",
        version="v1",
        resource="configmaps",
        kind="ConfigMap",
        subresource="status",
        namespace="ns",
        name="a",
        user=admission.UserInfo(username="alice", groups=["g"], extra={"k": ["v"]}),
        object={"metadata": {"name": "a"}},
        old={"x": 1},
        dry_run=True,
    )
    assert webhook.decode(message(operation="DELETE", object=None)).object is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10.0), ("1m0.5s", 60.5), ("500ms", 0.5), ("1h", 3600.0), ("", None), ("5", None),
     ("5s!", None), ("-5s", None)],
)  # fmt: skip
def test_reads_go_durations(text: str, seconds: float | None) -> None:
    assert webhook.parse_duration(text) == seconds


async def test_answers(bench: Bench) -> None:
    code, answer, _ = await bench.post("/allow", message())
    assert (code, answer["apiVersion"], answer["kind"]) == (
        200,
        "admission.k8s.io/v1",
        "AdmissionReview",
    )
    assert answer["response"] == {
        "uid": "r-1",
        "allowed": True,
        "warnings": ["careful"],
        "auditAnnotations": {"a": "b"},
    }
    _, answer, _ = await bench.post("/patch", message())
    assert answer["response"]["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(answer["response"]["patch"])) == [
        {"op": "add", "path": "/data/added", "value": "CREATE"}
    ]
    _, answer, _ = await bench.post("/deny", message())
    assert answer["response"] == {
        "uid": "r-1",
        "allowed": False,
        "status": {"message": "user alice may not CREATE", "reason": "Forbidden", "code": 403},
    }
    assert bench.requests("/deny", "200") == 1


async def test_a_handler_that_raises_is_a_refusal(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    code, answer, _ = await bench.post("/explode", message())
    assert code == 200
    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"]["code"] == 500
    assert "secret detail" not in answer["response"]["status"]["message"]
    assert "secret detail" in caplog.text
    assert bench.registry.counter("controller_runtime_webhook_panics_total", "").value() == 1


async def test_a_handler_that_hangs_is_a_refusal_within_the_callers_patience(bench: Bench) -> None:
    began = time.monotonic()
    _, answer, _ = await bench.post("/hang?timeout=500ms", message())
    assert 0.35 < time.monotonic() - began < 0.5 + 5
    assert answer["response"]["status"]["code"] == 504


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":null}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        message(object=5)[:-3],
        message(operation=7),
        b"\xff\xfe",
    ],
)
async def test_refuses_what_is_no_review(bench: Bench, body: bytes) -> None:
    code, text, _ = await bench.post("/allow", body)
    assert code == 400
    assert "not an admission review" in text


async def test_bounds_bodies_and_paths(bench: Bench) -> None:
    code, _, _ = await bench.post("/allow", b"x" * 200_000)
    assert code == 413
    code, _, _ = await bench.post("/nowhere", message())
    assert code == 404
    assert bench.requests("/allow", "413") == 1


async def test_bounds_what_is_under_way(until: Until) -> None:
    made = Bench(timing=timing.Timing().scaled(0.01), max_in_flight=1)
    await made.server.start()
    try:
        first = asyncio.create_task(made.post("/hang?timeout=2s", message()))
        await until(lambda: made.server._in_flight)
        code, _, headers = await made.post("/allow", message())
        assert (code, headers["Retry-After"]) == (429, "1")
        assert (await first)[0] == 200
    finally:
        await made.session.close()
        await made.server.stop()


async def test_a_body_that_does_not_come_is_given_up(bench: Bench) -> None:
    context = ssl.create_default_context(cadata=CA.cert.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.server.port, ssl=context)
    writer.write(b"POST /allow?timeout=200ms HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n")
    assert b" 408 " in head
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_drains(until: Until) -> None:
    made = Bench(timing=timing.Timing().scaled(0.05))
    assert made.server.check() == "not listening"
    await made.server.start()
    assert made.server.check() == ""
    _, _, headers = await made.post("/allow", message())
    assert headers.get("Connection") != "close"
    stopping = asyncio.create_task(made.server.stop())
    await until(lambda: made.server.check() == "draining")
    # The connection is open, and so it is used; the answer asks to leave it.
    code, answer, headers = await made.post("/allow", message())
    assert (code, answer["response"]["allowed"]) == (200, True)
    assert headers["Connection"] == "close"
    await stopping
    with pytest.raises(aiohttp.ClientError):
        await made.post("/allow", message())
    await made.session.close()
    await made.server.stop()


async def test_paths_are_routed_once_and_steps_are_counted(bench: Bench) -> None:
    with pytest.raises(ValueError, match="routed"):
        bench.server.route("/allow", allow)
    bench.server.counters.of("owner").runs = 3
    assert 'admission_step_total{step="owner",result="run"} 3' in bench.registry.exposition()


async def test_two_servers_can_share_a_registry() -> None:
    registry = metrics.Registry()
    for _ in range(2):
        webhook.Server("127.0.0.1", 0, certificate=pair, registry=registry)
    assert "admission_step_total" in registry.exposition()


@pytest.mark.plane
async def test_the_api_server_understands_it(
    bench: Bench, admin: kube.Client, namespace: str
) -> None:
    """Through a real MutatingWebhookConfiguration, with our own CA."""

    def hook(name: str, path: str) -> dict[str, Any]:
        return {
            "name": f"{name}.runtime.test",
            "clientConfig": {
                "url": f"https://127.0.0.1:{bench.server.port}/{path}",
                "caBundle": base64.b64encode(CA.cert).decode(),
            },
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {"hook": name}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }

    configuration = {
        "metadata": {"name": f"{namespace}-hooks"},
        "webhooks": [hook("patch", "patch"), hook("deny", "deny"), hook("explode", "explode")],
    }
    await admin.create(resources.MUTATING_WEBHOOKS, configuration)
    try:
        for name in ("patch", "deny", "explode"):
            await reached(bench, admin, namespace, name)
        made = await admin.create(resources.CONFIG_MAPS, labelled(namespace, "a", "patch"))
        assert made["data"]["added"] == "CREATE"
        with pytest.raises(kube_errors.Forbidden, match="may not CREATE"):
            await admin.create(resources.CONFIG_MAPS, labelled(namespace, "b", "deny"))
        with pytest.raises(kube_errors.KubeError, match=r"denied the request.*RuntimeError.* 500"):
            await admin.create(resources.CONFIG_MAPS, labelled(namespace, "c", "explode"))
    finally:
        await admin.delete(resources.MUTATING_WEBHOOKS, f"{namespace}-hooks")


def labelled(namespace: str, name: str, hook: str) -> dict[str, Any]:
    obj = config_map(namespace, name, x="1")
    obj["metadata"]["labels"]["hook"] = hook
    return obj


async def reached(bench: Bench, admin: kube.Client, namespace: str, hook: str) -> None:
    """Wait until the API server has taken note of the configuration."""
    async with asyncio.timeout(20):
        while not bench.requests(f"/{hook}", "200"):
            try:
                await admin.create(
                    resources.CONFIG_MAPS, labelled(namespace, "probe", hook), dry_run=True
                )
            except kube_errors.KubeError:
                continue


async def test_reviews_are_answered_to_known_callers_alone_conversions_to_anybody(
    tmp_path: pathlib.Path,
) -> None:
    clients = authority.Authority.create("callers", time.time())
    made = Bench(timing=timing.Timing().scaled(0.01), clients=clients.cert)
    made.server.route_conversion("/convert", lambda obj, _: obj)
    await made.server.start()
    question = json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": "c-1", "desiredAPIVersion": "g/v2", "objects": []},
        }
    ).encode()
    assert (await made.post("/allow", message()))[0] == 403
    assert made.requests("/allow", "403") == 1
    code, answer, _ = await made.post("/convert", question)
    assert (code, answer["response"]["result"]["status"]) == (200, "Success")
    await made.session.close()
    for signer, code in ((clients, 200), (CA, 0)):
        issued = signer.issue_client("caller", ["g"], time.time())
        (tmp_path / "pair").write_bytes(issued.cert + issued.key)
        context = ssl.create_default_context(cadata=CA.cert.decode())
        context.load_cert_chain(tmp_path / "pair")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            made.session = session
            if code:
                assert (await made.post("/allow", message()))[0] == code
            else:
                with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
                    await made.post("/convert", question)
    await made.server.stop()
