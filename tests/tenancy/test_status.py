"""What a Tenant says about itself: specs/capsule 1.3 and 2.5."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from tenantry.api import meta
from tenantry.api.capsule import tenant
from tenantry.core import clock
from tenantry.directory import identity, owners
from tenantry.tenancy import metadata, status

NOW = 1_800_000_000.0
LATER = NOW + 100
STAMP, LATER_STAMP = clock.rfc3339(NOW), clock.rfc3339(LATER)
ALICE = owners.Owner(identity.Subject("User", "alice"), ("admin", "view"))


def make_tenant(before: dict[str, Any] | None = None, **spec: Any) -> tenant.Tenant:
    found = tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil", uid="u", generation=4), spec=tenant.TenantSpec(**spec)
    )
    if before is not None:
        found.status = msgspec.convert(before, tenant.TenantStatus)
    return found


def space(name: str, **more: Any) -> status.Space:
    return status.Space(name, f"uid-{name}", **more)


def desired(
    found: tenant.Tenant,
    *spaces: status.Space,
    spec: dict[str, Any] | None = None,
    error: str = "",
    now: float = NOW,
) -> dict[str, Any]:
    return status.desired(
        found, spec=spec or {}, entries=[ALICE], spaces=spaces, error=error, now=now
    )


def conditions(found: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        c["type"]: (c["status"], c["reason"], c.get("message", "")) for c in found["conditions"]
    }


def test_a_tenant_in_order() -> None:
    found = desired(
        make_tenant(),
        space("oil-b"),
        space("oil-a", managed=metadata.Metadata({"a": "1"}, {"b": "2"})),
    )
    assert {key: found[key] for key in ("state", "size", "observedGeneration", "namespaces")} == {
        "state": "Active", "size": 2, "observedGeneration": 4, "namespaces": ["oil-a", "oil-b"],
    }  # fmt: skip
    assert found["owners"] == [{"kind": "User", "name": "alice", "clusterRoles": ["admin", "view"]}]
    assert conditions(found) == {
        "Ready": ("True", "Succeeded", "reconciled"),
        "Cordoned": ("False", "Active", "not cordoned"),
        "Enforced": ("True", "AllFieldsEnforced", "every field that is set takes effect"),
    }
    assert {c["observedGeneration"] for c in found["conditions"]} == {4}
    assert {c["lastTransitionTime"] for c in found["conditions"]} == {STAMP}
    first, second = found["spaces"]
    assert (first["name"], first["uid"]) == ("oil-a", "uid-oil-a")
    assert first["metadata"] == {"labels": {"a": "1"}, "annotations": {"b": "2"}}
    assert "metadata" not in second
    assert conditions(first) == {
        "Ready": ("True", "Succeeded", "reconciled"),
        "Cordoned": ("False", "Active", "not cordoned"),
    }


def test_only_what_is_there_is_written_of_the_metadata() -> None:
    found = desired(make_tenant(), space("a", managed=metadata.Metadata({}, {"b": "2"})))
    assert found["spaces"][0]["metadata"] == {"annotations": {"b": "2"}}


def test_an_empty_tenant() -> None:
    found = desired(make_tenant())
    assert (found["size"], found["namespaces"], found["spaces"]) == (0, [], [])


def test_a_cordoned_tenant_freezes_all_its_namespaces() -> None:
    found = desired(make_tenant(cordoned=True), space("a"))
    assert found["state"] == "Cordoned"
    assert conditions(found)["Cordoned"] == ("True", "Cordoned", "Tenant is cordoned")
    assert conditions(found["spaces"][0])["Cordoned"] == ("True", "Cordoned", "Tenant is cordoned")


def test_one_namespace_frozen_by_its_owner() -> None:
    found = desired(make_tenant(), space("a", cordoned=True), space("b"))
    assert found["state"] == "Active"
    assert conditions(found)["Cordoned"][0] == "False"
    frozen, free = found["spaces"]
    assert conditions(frozen)["Cordoned"] == ("True", "Cordoned", "namespace is cordoned")
    assert conditions(free)["Cordoned"][0] == "False"


def test_failures_are_gathered_and_do_not_hide_each_other() -> None:
    found = desired(
        make_tenant(), space("b", error="no"), space("a", error="never"), error="broken", now=NOW
    )
    words = "broken; namespace a: never; namespace b: no"
    assert conditions(found)["Ready"] == ("False", "Failed", words)
    assert conditions(found["spaces"][0])["Ready"] == ("False", "Failed", "never")


def test_a_namespace_that_was_not_looked_at_yet_is_not_called_ready() -> None:
    found = desired(make_tenant(), space("a", pending=True), space("b"))
    assert conditions(found["spaces"][0])["Ready"] == ("Unknown", "Reconciling", "processing")
    assert conditions(found["spaces"][1])["Ready"][0] == "True"
    assert conditions(found)["Ready"] == ("Unknown", "Reconciling", "processing")
    failed = desired(make_tenant(), space("a", pending=True), space("b", error="no"))
    assert conditions(failed)["Ready"] == ("False", "Failed", "namespace b: no")


def test_deletion() -> None:
    dying = make_tenant(cordoned=True)
    dying.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    found = desired(dying, space("a", waiting=status.WAITING_FOR_PODS))
    assert found["state"] == "Terminating"
    assert conditions(found["spaces"][0])["Terminating"] == (
        "False", "PendingUnmanagedContent", "waiting for pods to finalize",
    )  # fmt: skip


def test_fields_without_effect_are_named_and_readiness_is_unaffected() -> None:
    found = desired(make_tenant(), spec={"zebra": {"allowed": ["x"]}, "podOptions": {"x": 1}})
    assert conditions(found)["Enforced"] == (
        "False",
        "FieldsNotEnforced",
        "no effect in this release: podOptions.x, zebra",
    )
    assert conditions(found)["Ready"][0] == "True"


def test_a_transition_time_changes_with_the_status_alone() -> None:
    first = desired(make_tenant(), space("a"))
    same = desired(make_tenant(first), space("a"), now=LATER)
    assert same == first
    other = desired(make_tenant(first), space("a", error="no"), now=LATER)
    times = {c["type"]: c["lastTransitionTime"] for c in other["conditions"]}
    assert times == {"Ready": LATER_STAMP, "Cordoned": STAMP, "Enforced": STAMP}
    inner = {c["type"]: c["lastTransitionTime"] for c in other["spaces"][0]["conditions"]}
    assert inner == {"Ready": LATER_STAMP, "Cordoned": STAMP}
    reworded = desired(make_tenant(other), space("a", error="still no"), now=LATER + 100)
    assert {c["lastTransitionTime"] for c in reworded["conditions"]} == {LATER_STAMP, STAMP}


def test_conditions_of_others_and_of_the_past_go() -> None:
    before = {
        "conditions": [{"type": "NotReady", "status": "True"}],
        "spaces": [
            {
                "name": "a",
                "conditions": [
                    {"type": "Terminating", "status": "False", "lastTransitionTime": STAMP}
                ],
            }
        ],
    }
    found = desired(make_tenant(before), space("a"))
    assert "NotReady" not in conditions(found)
    assert "Terminating" not in conditions(found["spaces"][0])


@pytest.mark.parametrize(
    "known",
    [
        space("a"),
        space("a", error="no"),
        space("a", pending=True),
        space("a", cordoned=True, managed=metadata.Metadata({"a": "1"}, {"b": "2"})),
    ],
)
def test_what_was_written_is_read_back(known: status.Space) -> None:
    """So a new leader, which has not looked yet, repeats what is there and writes nothing."""
    written = desired(make_tenant(), known)
    (entry,) = make_tenant(written).status.spaces
    remembered = status.remembered(entry, cordoned=known.cordoned)
    assert remembered == dataclasses.replace(known)
    assert desired(make_tenant(written), remembered, now=LATER) == written


def test_an_entry_without_conditions_was_never_looked_at() -> None:
    entry = tenant.Space(name="a", uid="uid-a")
    assert status.remembered(entry, cordoned=False) == space("a", pending=True)


def test_what_holds_a_tenant_is_listed_up_to_a_point() -> None:
    assert status.held("oil", []) == ""
    assert "tenant: a, b; an administrator" in status.held("oil", ["b", "a"])
    assert "tenant: n0, n1, n2, n3, n4 and 2 more;" in status.held(
        "oil", [f"n{number}" for number in range(7)]
    )
