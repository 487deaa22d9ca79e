from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from tenantry.core import errors
from tenantry.kube import calls
from tenantry.runtime import tracing


class Recorded:
    """Stands in for the OpenTelemetry API, which is no dependency."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.durations: list[int] = []

    def get_tracer(self, name: str, tracer_provider: Any = None) -> Recorded:
        assert name == "tenantry"
        return self

    @contextlib.contextmanager
    def start_as_current_span(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        self.spans.append((name, attributes))
        yield

    def start_span(self, name: str, start_time: int, attributes: dict[str, Any]) -> Any:
        self.spans.append((name, attributes))

        def end(end_time: int) -> None:
            self.durations.append(end_time - start_time)

        return types.SimpleNamespace(end=end)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    module = types.ModuleType("opentelemetry.trace")
    module.get_tracer = recorded.get_tracer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", types.ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)
    return recorded


ATTEMPT = calls.Attempt("GET", "/api/v1/pods", 200, 0.25)


def test_off_by_default(api: Recorded) -> None:
    tracer = tracing.Tracer()
    with tracer.span("reconcile", controller="c"):
        tracer.request(ATTEMPT)
    assert not tracer.enabled
    assert not api.spans


def test_spans_go_to_the_api(api: Recorded) -> None:
    tracer = tracing.Tracer()
    tracer.enable()
    with tracer.span("reconcile", controller="c", key="k"):
        tracer.request(ATTEMPT)
    assert tracer.enabled
    assert api.spans == [
        ("reconcile", {"controller": "c", "key": "k"}),
        (
            "GET kube-apiserver",
            {
                "http.request.method": "GET",
                "url.path": "/api/v1/pods",
                "http.response.status_code": 200,
            },
        ),
    ]
    assert api.durations == [250_000_000]


def test_without_the_api_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(errors.InvalidValueError, match="opentelemetry-api"):
        tracing.Tracer().enable()
