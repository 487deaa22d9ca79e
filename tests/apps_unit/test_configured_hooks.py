"""Webhooks that a CapsuleConfiguration defines, and where they lead; the rest is tested live."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration
from tenantry.apps import configured_clients as clients
from tenantry.apps import configured_hooks as configured
from tenantry.apps import hooks
from tenantry.directory import identity
from tenantry.pki import authority

MUTATING, VALIDATING = clients.SIDES
OWN = "capsule-system"
PEM = authority.Authority.create("test", 0.0).cert
OTHER = authority.Authority.create("other", 0.0).cert
URL = {"url": "https://hooks.example.com:9443"}


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def spec(**fields: Any) -> configuration.CapsuleConfigurationSpec:
    return msgspec.convert(fields, configuration.CapsuleConfigurationSpec)


def validating(*webhooks: Any, client: Any = None, **more: Any) -> Any:
    said = {"name": "x", "client": client or URL, "webhooks": list(webhooks)}
    return spec(admission={"validating": said}, **more)


def webhook(**more: Any) -> Any:
    return {
        "name": "pods",
        "path": "/pods/validating",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def roster(users: int = 0, *names: str, admins: tuple[str, ...] = ()) -> identity.Roster:
    found = {identity.Subject("User", f"u{number}") for number in range(users)}
    found |= {identity.Subject("Group", name) for name in names}
    return identity.Roster(
        controllers=(),
        users=frozenset(found),
        administrators=frozenset(identity.Subject("User", name) for name in admins),
        ignored_groups=frozenset(),
    )


def make(said: Any, known: identity.Roster | None = None) -> configured.Made:
    return configured.make(
        VALIDATING, said, namespace=OWN, controllers=["me"], roster=known or roster()
    )


def test_webhooks_are_sorted_and_named_after_their_side() -> None:
    made = make(validating(webhook(name="z"), webhook(name="a")))
    assert [hook.body["name"] for hook in made.hooks] == [
        "a.validating.projectcapsule.dev",
        "z.validating.projectcapsule.dev",
    ]
    assert [hook.field for hook in made.hooks] == [
        "spec.admission.validating.webhooks[1]",
        "spec.admission.validating.webhooks[0]",
    ]


def test_nothing_is_said_where_nothing_is_defined() -> None:
    made = make(spec())
    assert (made.hooks, made.problems, made.notes) == ((), (), ())
    # The deprecated names count where there is no other.
    assert made.name == "capsule-validating-webhook-configuration"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (validating(webhook(path="/mutate")), "webhooks[0].path: Invalid value"),
        (validating(webhook(name="Pods")), "webhooks[0].name: Invalid value"),
        (
            validating(webhook(), client={"url": "http://x"}),
            'client.url: Invalid value: "http://x"',
        ),
        (
            validating(webhook(), client={"service": {"namespace": "a", "name": "B"}}),
            'client.service.name: Invalid value: "B"',
        ),
        (validating(webhook(), client={**URL, "caBundle": "AAAA"}), "client.caBundle: Invalid"),
    ],
)
def test_what_is_wrong_is_named(said: Any, expected: str) -> None:
    made = make(said)
    (problem,) = made.problems
    assert problem.startswith(f"spec.admission.validating.{expected}")


@pytest.mark.parametrize(
    ("client", "registered"),
    [
        (URL, 1),
        ({**URL, "caBundle": "AAAA"}, 1),
        ({"url": "http://x"}, 0),
        ({"url": "http://x/.client.caBundle: "}, 0),
    ],
)
def test_where_nobody_can_be_asked_nothing_is_registered(client: Any, registered: int) -> None:
    assert len(make(validating(webhook(), client=client)).hooks) == registered


def test_labels_that_cannot_be_are_left_out() -> None:
    said = msgspec.structs.replace(
        spec(),
        admission=msgspec.convert(
            {"validating": {"name": "x", "client": URL, "webhooks": [webhook()],
                            "labels": {"a": "b c", "ok": "1"}, "annotations": {"no no": ""}}},
            configuration.Admission,
        ),
    )  # fmt: skip
    made = make(said)
    assert made.labels == {"ok": "1"}
    assert made.annotations == {}
    assert len(made.problems) == 2
    assert len(made.hooks) == 1


def test_what_capsule_answers_and_we_do_not_is_left_out_and_said() -> None:
    made = make(validating(webhook(path="/generic/customresources")))
    assert (made.hooks, made.problems) == ([], [])
    assert "/generic/customresources is not answered here" in made.notes[0]
    assert not configured.LEFT_OUT & (MUTATING.paths | VALIDATING.paths)


def requesters(known: identity.Roster, **options: bool) -> str | None:
    given = configuration.WebhookOptions(**options)
    found = configured.requesters(given, known)
    return None if found is None else str(found["expression"])


def test_requesters_are_bounded() -> None:
    few = requesters(roster(2, 'g"x'), capsule_users=True)
    assert few == (
        "'system:serviceaccounts' in request.userInfo.groups || "
        'request.userInfo.username in ["u0", "u1"] || '
        'request.userInfo.groups.exists(group, group in ["g\\"x"])'
    )
    assert requesters(roster(configured.MOST_SUBJECTS + 1), capsule_users=True) is None
    assert requesters(roster(0, "g" * 20_000), capsule_users=True) is None
    assert requesters(roster(), administrators=True) == "false"
    assert requesters(roster(3, admins=("boss",)), administrators=True) == (
        'request.userInfo.username in ["boss"]'
    )
    assert requesters(roster(3)) is None


def test_conditions_of_the_same_name_live_beside_each_other() -> None:
    mine = [{"name": configured.CONDITION, "expression": "true"}]
    (hook,) = make(validating(webhook(matchConditions=mine))).hooks
    names = [condition["name"] for condition in hook.body["matchConditions"]]
    assert names[0] == configured.CONDITION
    assert len(set(names)) == len(names) == 2


def bundles(said: Any, observed: Any = None) -> dict[str, str]:
    found = clients.bundles(
        VALIDATING,
        [hook.body for hook in make(said).hooks],
        said,
        observed,
        ca=PEM,
        manager="we",
    )
    return {name.partition(".")[0]: value for name, value in found.items()}


def test_whose_certificates_are_trusted() -> None:
    given = {**URL, "caBundle": encoded(OTHER)}
    assert bundles(validating(webhook())) == {"pods": encoded(PEM)}
    assert bundles(validating(webhook(), client=given)) == {"pods": encoded(OTHER)}
    ours = validating(webhook(), client=given, enableTLSReconciler=True)
    assert bundles(ours) == {"pods": encoded(PEM)}
    entry = {
        "manager": "cert-manager-cainjector",
        "fieldsV1": {
            "f:webhooks": {
                'k:{"name":"pods.validating.projectcapsule.dev"}': {
                    "f:clientConfig": {"f:caBundle": {}}
                }
            }
        },
    }
    injected = {"metadata": {"managedFields": [entry]}}
    assert bundles(validating(webhook()), injected) == {}
    # What we wrote ourselves is ours to renew.
    assert bundles(
        validating(webhook()), {"metadata": {"managedFields": [{**entry, "manager": "we"}]}}
    ) == {"pods": encoded(PEM)}


def endpoint(said: Any, url: str = "") -> Any:
    return clients.endpoint(VALIDATING, said, url=url, namespace=OWN, ca=PEM)


def test_the_fixed_webhooks_are_reached_where_the_configuration_says() -> None:
    service = {"namespace": OWN, "name": hooks.SERVICE, "port": 443}
    assert endpoint(spec()) == {"service": service, "caBundle": encoded(PEM)}
    named = spec(admission={"serviceName": "mine"})
    assert endpoint(named)["service"] == {**service, "name": "mine"}
    assert "mine.capsule-system.svc" in clients.server_names(named, url="", namespace=OWN)
    outside = validating(client=URL)
    assert endpoint(outside)["url"] == URL["url"]
    assert "hooks.example.com" in clients.server_names(outside, url="", namespace=OWN)
    own = {"namespace": OWN, "name": "mine", "port": 8443, "path": "/pre"}
    assert endpoint(validating(client={"service": own}))["service"] == own
    made = hooks.conversion(endpoint(validating(client={"service": own})))
    assert made["webhook"]["clientConfig"]["service"]["path"] == "/pre/convert"
    # What the process was told wins.
    assert endpoint(outside, url="https://127.0.0.1:1")["url"] == "https://127.0.0.1:1"


@pytest.mark.parametrize(
    "client",
    [
        {"service": {"namespace": "elsewhere", "name": "capsule-webhook-service"}},
        {"url": "http://plain.example.com"},
        {"url": "https://x@y"},
        # What is wrong is told by the field, not by what a value says of itself.
        {"url": "http://plain.example.com/caBundle"},
    ],
)
def test_the_fixed_webhooks_lead_to_nobody_else(client: Any) -> None:
    assert endpoint(validating(client=client))["service"]["name"] == hooks.SERVICE


def test_the_fixed_webhooks_trust_us_and_whom_the_configuration_names() -> None:
    said = validating(client={**URL, "caBundle": encoded(OTHER)})
    trusted = base64.b64decode(endpoint(said)["caBundle"])
    assert PEM.strip() in trusted
    assert OTHER.strip() in trusted


def test_nothing_is_ours_without_label_and_reference() -> None:
    owner = msgspec.convert(
        {"metadata": {"name": "default", "uid": "1"}}, configuration.CapsuleConfiguration
    )
    made = make(validating(webhook()))
    whole = configured.object_of(VALIDATING, made, owner, {})
    assert configured.is_ours(whole, owner)
    for missing in ("labels", "ownerReferences"):
        metadata = {key: value for key, value in whole["metadata"].items() if key != missing}
        assert not configured.is_ours({**whole, "metadata": metadata}, owner)
    other = msgspec.convert(
        {"metadata": {"name": "default", "uid": "2"}}, configuration.CapsuleConfiguration
    )
    assert not configured.is_ours(whole, other)


def test_who_defines_webhooks_is_told_what_they_cost() -> None:
    (warning,) = configured.warnings(validating(webhook(), webhook(name="b")))
    assert "2 of its webhooks" in warning
    assert configured.warnings(spec()) == []
