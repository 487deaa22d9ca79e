from __future__ import annotations

import pytest

from tenantry.apps import conversions, hooks


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://127.0.0.1:9443", {"url": "https://127.0.0.1:9443/convert", "service": None}),
        (
            "",
            {
                "url": None,
                "service": {
                    "namespace": "ns",
                    "name": "capsule-webhook-service",
                    "port": 443,
                    "path": "/convert",
                },
            },
        ),
    ],
)
def test_one_place_takes_the_others(url: str, place: dict[str, object]) -> None:
    change = conversions.change(hooks.conversion(hooks.endpoint(url, "ns", b"ca")))
    assert change == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {**place, "caBundle": "Y2E="},
            "conversionReviewVersions": ["v1"],
        },
    }


def test_of_a_definition_only_the_conversion_is_kept() -> None:
    raw = b'{"metadata":{"name":"x"},"spec":{"versions":[{}],"conversion":{"strategy":"None"}}}'
    assert conversions.view(raw) == {"strategy": "None"}
