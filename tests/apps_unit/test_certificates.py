"""In which Secret the serving certificate is kept, and which are left alone."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import configuration
from tenantry.apps import certificates
from tenantry.kube import errors
from tenantry.pki import authority, bundle

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ["webhook.example"]


class Cluster:
    """Secrets of one namespace; `refusals` are raised by the next writes."""

    def __init__(self, **stored: dict[str, Any]) -> None:
        self.stored = {name.replace("_", "-"): obj for name, obj in stored.items()}
        self.refusals: list[errors.KubeError] = []
        self.writes = 0

    async def get(self, _: resources.Resource, name: str, namespace: str) -> dict[str, Any]:
        assert namespace == "capsule-system"
        if name not in self.stored:
            raise errors.from_response(404, b"")
        return copy.deepcopy(self.stored[name])

    async def create(self, _: resources.Resource, body: dict[str, Any]) -> None:
        self._store(body)

    async def replace(self, _: resources.Resource, body: dict[str, Any]) -> None:
        self._store(body)

    def _store(self, body: dict[str, Any]) -> None:
        self.writes += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.stored[body["metadata"]["name"]] = body


def secret(name: str, data: dict[str, bytes], **labels: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {"metadata": {"name": name, "labels": labels}, "data": encoded}


def of(signer: str) -> dict[str, bytes]:
    made = authority.Authority.create(signer, NOW)
    return bundle.Bundle(authority=made, leaf=made.issue_server(NAMES, NOW)).to_secret()


def serving(cluster: Any, name: str = certificates.SECRET, now: float = NOW) -> Any:
    return certificates.ServingCertificate(
        cluster, "capsule-system", NAMES, secret=lambda: name, now=lambda: now
    )


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        pass

    monkeypatch.setattr("tenantry.apps.certificates.asyncio.sleep", at_once)


@pytest.mark.parametrize(
    ("enabled", "override", "name"),
    [
        (False, "capsule-tls", "tenantry-webhook-tls"),
        (False, "mine", "tenantry-webhook-tls"),
        (True, "mine", "mine"),
        (True, "capsule-tls", "capsule-tls"),
        (True, "", "tenantry-webhook-tls"),
    ],
)
def test_the_override_counts_where_the_platform_keeps_the_secret(
    enabled: bool, override: str, name: str
) -> None:
    spec = configuration.CapsuleConfigurationSpec(enable_tls_reconciler=enabled)
    spec.overrides.tls_secret_name = override
    assert certificates.secret_name(spec) == name
    assert certificates.secret_name(configuration.CapsuleConfigurationSpec()) == certificates.SECRET


async def test_a_secret_of_somebody_else_is_never_written() -> None:
    for data in (of("capsule-ca"), {"tls.crt": b"x"}, {}):
        theirs = secret("capsule-tls", data)
        cluster = Cluster(capsule_tls=copy.deepcopy(theirs))
        with pytest.raises(certificates.ForeignSecretError, match=r"overrides\.TLSSecretName"):
            await serving(cluster, "capsule-tls").refresh()
        assert cluster.stored == {"capsule-tls": theirs}


async def test_what_is_made_is_labelled_and_repaired_when_it_was_emptied() -> None:
    cluster = Cluster()
    assert await serving(cluster).refresh()
    made = cluster.stored[certificates.SECRET]
    assert certificates.OURS.items() <= made["metadata"]["labels"].items()
    made["data"] = {}
    assert await serving(cluster).refresh()
    assert cluster.stored[certificates.SECRET]["data"]["tls.crt"]


async def test_one_that_an_earlier_release_made_is_known_by_its_signer() -> None:
    cluster = Cluster(capsule_tls=secret("capsule-tls", of(certificates.AUTHORITY)))
    one = serving(cluster, "capsule-tls")
    assert await one.refresh()
    assert cluster.writes == 0


async def test_in_a_secret_of_another_name_the_bundle_goes_on() -> None:
    cluster, name = Cluster(), ["one"]
    one = certificates.ServingCertificate(
        cluster,  # type: ignore[arg-type]
        "capsule-system",
        NAMES,
        secret=lambda: name[0],
        now=lambda: NOW,
    )
    await one.refresh()
    before = one.trust
    name[0] = "two"
    assert not await one.refresh()
    assert one.trust == before
    assert cluster.stored["two"]["data"] == cluster.stored["one"]["data"]


async def test_lost_races_are_run_again_but_not_for_ever() -> None:
    cluster = Cluster()
    cluster.refusals = [errors.AlreadyExists(409, "AlreadyExists", "")] * 3
    assert await serving(cluster).refresh()
    cluster = Cluster()
    cluster.refusals = [errors.Conflict(409, "Conflict", "")] * 99
    with pytest.raises(certificates.ContendedError):
        await serving(cluster).refresh()
    assert cluster.writes == certificates.ATTEMPTS


async def test_a_missing_namespace_is_said_at_once() -> None:
    cluster = Cluster()
    cluster.refusals = [errors.NotFound(404, "NotFound", 'namespaces "capsule-system" not found')]
    with pytest.raises(errors.NotFound, match="capsule-system"):
        await serving(cluster).refresh()
    assert cluster.writes == 1


async def test_a_certificate_that_cannot_be_renewed_is_said_only_near_its_end() -> None:
    clock = [NOW]
    cluster = Cluster()
    one = certificates.ServingCertificate(
        cluster,  # type: ignore[arg-type]
        "capsule-system",
        NAMES,
        now=lambda: clock[0],
    )
    assert await one.renew()
    assert one.check() == ""
    cluster.stored[certificates.SECRET] = secret(certificates.SECRET, {})
    assert not await one.renew()
    assert one.check() == ""
    clock[0] += (authority.LEAF_DAYS - 0.5) * DAY
    assert "was not made by Tenantry" in one.check()
    del cluster.stored[certificates.SECRET]
    assert await one.renew()
    assert one.check() == ""


async def test_the_certificate_follows_the_names_by_which_the_webhook_is_reached() -> None:
    names = list(NAMES)
    cluster: Any = Cluster()
    serving = certificates.ServingCertificate(
        cluster, "capsule-system", lambda: names, now=lambda: NOW
    )
    await serving.refresh()
    trust, first = serving.trust, serving.pair()
    assert not await serving.refresh()
    names.append("hooks.example.com")
    assert await serving.refresh()
    assert serving.pair() != first
    # The authority stays, so nobody has to be told by whom it is recognised now.
    assert serving.trust == trust
