"""Each check as a table: facts in, findings out."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest

from tenantry.apps import doctor, facts
from tenantry.pki import authority

NOW = 1_800_000_000.0
DAY = 86400.0

WELL = doctor.Facts(
    now=NOW,
    namespace="capsule-system",
    version=(1, 35),
    wanted_kinds={"tenants.x": frozenset({"v1"})},
    kinds={"tenants.x": doctor.Kind(versions=frozenset({"v1"}), established=True)},
    certificates=[doctor.Certificate(name="tls", begins=NOW - DAY, ends=NOW + 300 * DAY)],
    hooks=[doctor.Hook(configuration="tenantry", name="a", trusted=True, fails_closed=True)],
    called="",
    missing=[],
    leases=[doctor.Lease(name="lease", holder="me", renewed=NOW - 5, duration=15)],
    skew=(0.2, 0.6),
    roles=[doctor.Role(address="http://x", failing=(), heard={"pods": 20.0})],
)


def test_all_is_well() -> None:
    findings = doctor.examine(WELL)
    assert {each.severity for each in findings} == {"ok"}
    assert {each.check for each in findings} == {
        "server", "clock", "kinds", "permissions", "certificates", "webhooks", "leases", "roles",
    }  # fmt: skip
    assert not any(each.remedy for each in findings)
    assert doctor.worst(findings) == "ok"


def hook(**changes: Any) -> list[doctor.Hook]:
    assert WELL.hooks
    return [dataclasses.replace(WELL.hooks[0], **changes)]


@pytest.mark.parametrize(
    ("changes", "severity", "check", "says"),
    [
        ({"version": (1, 32)}, "error", "server", "older than 1.33"),
        ({"version": (1, 34)}, "warning", "server", "ordered resourceVersions"),
        ({"version": None, "problems": {"server": "refused"}}, "error", "server", "refused"),
        ({"skew": (90.0, 1.0)}, "error", "clock", "90 s behind the API server"),
        ({"skew": (-600.0, 1.0)}, "error", "clock", "600 s ahead of the API server"),
        ({"skew": (90.0, 40.0)}, "ok", "clock", "agrees"),
        ({"kinds": {}}, "error", "kinds", "does not exist"),
        (
            {"wanted_kinds": {"tenants.x": frozenset({"v1", "v2"})}},
            "error", "kinds", "does not serve v2",
        ),
        (
            {"kinds": {"tenants.x": doctor.Kind(
                versions=frozenset({"v1"}), established=False, message="names clash")}},
            "error", "kinds", "names clash",
        ),
        ({"missing": ["capsule list pods"]}, "error", "permissions", "must be allowed to list pods"),
        (
            {"certificates": [doctor.Certificate(name="tls", begins=0, ends=NOW)]},
            "error", "certificates", "expired at 2027-01-15",
        ),
        (
            {"certificates": [doctor.Certificate(name="tls", begins=NOW + 1, ends=NOW + DAY)]},
            "error", "certificates", "valid only from",
        ),
        (
            {"certificates": [doctor.Certificate(name="tls", begins=0, ends=NOW + DAY)]},
            "warning", "certificates", "was not renewed",
        ),
        (
            {"certificates": [doctor.Certificate(name="a/b", begins=0, ends=0, broken="no PEM")]},
            "error", "certificates", "is no certificate: no PEM",
        ),
        (   # valid for a day, and issued an hour ago: well
            {"certificates": [doctor.Certificate(
                name="tls", begins=NOW - 3600, ends=NOW + 23 * 3600)]},
            "ok", "certificates", "is valid until",
        ),
        ({"hooks": []}, "error", "webhooks", "no webhook leads to Tenantry"),
        ({"hooks": hook(trusted=False)}, "error", "webhooks", "does not trust"),
        ({"hooks": hook(trusted=False, fails_closed=False)}, "warning", "webhooks", "caBundle"),
        ({"called": "connection refused"}, "error", "webhooks", "connection refused"),
        ({"leases": []}, "warning", "leases", "there is none"),
        (
            {"leases": [doctor.Lease(name="l", holder="", renewed=NOW, duration=15)]},
            "error", "leases", "held by nobody",
        ),
        (
            {"leases": [doctor.Lease(name="l", holder="me", renewed=NOW - 200, duration=15)]},
            "error", "leases", "me did not renew it for 200 s",
        ),
        ({"roles": [doctor.Role(address="http://x", failing=None)]}, "error", "roles", "answer"),
        (
            {"roles": [doctor.Role(address="http://x", failing=("caches failed: pods",))]},
            "error", "roles", "is not ready: caches failed: pods",
        ),
        (
            {"roles": [doctor.Role(address="http://x", failing=(), heard={"pods": 100.0})]},
            "error", "roles", "its cache of pods has heard nothing for 100 s",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_a_remedy(
    changes: dict[str, Any], severity: str, check: str, says: str
) -> None:
    findings = doctor.examine(dataclasses.replace(WELL, **changes))
    (found,) = [each for each in findings if each.check == check and says in each.message]
    assert found.severity == severity
    assert bool(found.remedy) == (severity != "ok")
    assert doctor.worst(findings) == severity


def test_a_standby_says_whose_lease_it_waits_for() -> None:
    role = doctor.Role(address="http://x", failing=(), noted=("leader waiting for the lease",))
    (found,) = (
        each
        for each in doctor.examine(dataclasses.replace(WELL, roles=[role]))
        if each.check == "roles"
    )
    assert found.severity == "ok"
    assert found.message.endswith("; leader waiting for the lease")


def test_a_lease_is_judged_by_the_servers_clock() -> None:
    late = dataclasses.replace(
        WELL,
        skew=(-300.0, 0.5),
        leases=[doctor.Lease(name="l", holder="me", renewed=NOW - 310, duration=15)],
    )
    (lease,) = [each for each in doctor.examine(late) if each.check == "leases"]
    assert lease.severity == "ok"


def test_trust_means_signed_by() -> None:
    now = time.time()
    ours, other = (authority.Authority.create(name, now) for name in ("ours", "other"))
    # The same name with another key, as after a rotation.
    again = authority.Authority.create("ours", now)
    leaf = ours.issue_server(["x.svc"], now).cert
    assert facts.trusts(ours.cert, leaf)
    assert facts.trusts(other.cert + again.cert + ours.cert, leaf)
    assert not facts.trusts(other.cert + again.cert, leaf)
    assert not facts.trusts(b"", leaf)
    assert not facts.trusts(ours.cert, b"")


@pytest.mark.parametrize(
    ("owner", "says"),
    [
        (doctor.Owner.PLATFORM, "kubectl -n capsule-system delete secret mine"),
        (doctor.Owner.OTHERS, "kubectl -n capsule-system describe secret mine"),
        (doctor.Owner.YOU, "get a new kubeconfig"),
    ],
)
def test_who_has_to_renew_a_certificate_is_told_how(owner: doctor.Owner, says: str) -> None:
    late = doctor.Certificate(name="mine/tls.crt", begins=0, ends=NOW - 1, owner=owner)
    (found,) = (
        each
        for each in doctor.examine(dataclasses.replace(WELL, certificates=[late]))
        if each.check == "certificates"
    )
    assert says in found.remedy
