"""Which decisions are told as events, about what, and to whom."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, constants, tenant
from tenantry.apps import audit
from tenantry.core import errors as core_errors
from tenantry.directory import assignment, identity
from tenantry.runtime import admission
from tenantry.tenancy import evidence, metadata, ownership, reservations
from tenantry.tenancy.admission import break_glass, content, namespaces

OIL = tenant.Tenant(
    metadata=meta.ObjectMeta(name="oil", uid="u-oil"),
    spec=tenant.TenantSpec(
        force_tenant_prefix=True,
        node_selector={"pool": "oil"},
        namespace_options=tenant.NamespaceOptions(
            forbidden_labels=common.Forbidden(denied=["bad"]),
            forbidden_annotations=common.Forbidden(denied=["bad"]),
        ),
    ),
)
KNOWN = evidence.Evidence(
    requester=identity.Requester("alice"),
    requester_class=identity.Class.CAPSULE,
    config=configuration.CapsuleConfigurationSpec(),
    tenants={"oil": OIL},
    owners_of=lambda _: (),
)
ADMINISTRATOR = dataclasses.replace(KNOWN, requester_class=identity.Class.ADMIN)
ABOUT_OIL = {
    "apiVersion": "capsule.clastix.io/v1beta2",
    "kind": "Tenant",
    "name": "oil",
    "uid": "u-oil",
}


class Recorder:
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def event(self, *said: Any, **more: Any) -> None:
        regarding, kind, reason, _, note = said
        self.told.append(
            {"regarding": regarding, "type": kind, "reason": reason, "note": note, **more}
        )


def namespace(name: str, *, tied: bool = True) -> dict[str, Any]:
    reference = {**ABOUT_OIL}
    return {
        "metadata": {
            "name": name,
            "uid": f"u-{name}",
            "labels": {constants.TENANT_LABEL: "oil"} if tied else {},
            "ownerReferences": [reference] if tied else [],
        }
    }


def review(operation: str = "CREATE", **more: Any) -> admission.Review:
    fields: dict[str, Any] = {
        "uid": "r1",
        "operation": operation,
        "resource": "namespaces",
        "kind": "Namespace",
        "namespace": "oil-dev",
        "name": "oil-dev",
        "user": admission.UserInfo(username="alice"),
        "object": namespace("oil-dev"),
    }
    return admission.Review(**{**fields, **more})


def told(
    of: admission.Review, verdict: admission.Verdict, *, remembered: bool = True
) -> list[dict[str, Any]]:
    recorder: Any = Recorder()
    memory = {"oil": OIL} if remembered else {}
    audit.Auditor(recorder, memory.get).tell(of, verdict, KNOWN)
    found: list[dict[str, Any]] = recorder.told
    return found


def words(denial: Any) -> str:
    assert denial is not None
    message: str = denial.message
    return message


NEW = metadata.Metadata({"bad": "x"}, {})
NONE = metadata.Metadata()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (reservations.QUOTA_EXCEEDED, "Overprovisioned"),
        (ownership.NOT_MIGRATABLE, "ReasonNamespacePatch"),
        (ownership.PATCH_DENIED, "ReasonNamespacePatch"),
        (namespaces.CORDONED, "Cordoned"),
        (ownership.PREFIX_UNKNOWN, "InvalidTenantPrefix"),
        (
            words(ownership.assign(namespace("x"), ADMINISTRATOR)),
            "InvalidTenantPrefix",
        ),
        (words(metadata.check_forbidden(OIL, "x", NONE, NEW)), "ForbiddenLabel"),
        (
            words(metadata.check_forbidden(OIL, "x", NONE, metadata.Metadata({}, NEW.labels))),
            "ForbiddenAnnotation",
        ),
        (words(metadata.check_node_selector(OIL, metadata.Metadata(
            {}, {constants.NODE_SELECTOR_ANNOTATION: "pool=oil"}), NONE)),
         "ForbiddenNodeSelectorUpdate"),
        (content.PROMOTION_DISABLED, "ReasonPromotionDenied"),
        ("Tenant is invalid", ""),
        (core_errors.shown("x"), ""),
    ],
)  # fmt: skip
def test_reasons(message: str, reason: str) -> None:
    assert audit.reason_of(admission.denied(message)) == reason


def test_where_the_step_says_it_the_words_need_not() -> None:
    verdict = admission.denied("whatever", by=content.CORDONING.name)
    assert audit.reason_of(verdict) == "Cordoned"


@pytest.mark.parametrize("remembered", [True, False])
def test_a_new_namespace_is_told_of_itself(remembered: bool) -> None:
    """Also when memory has not heard of the tenant, which was read for the decision."""
    (event,) = told(review(), admission.Verdict(), remembered=remembered)
    assert event == {
        "regarding": {
            "apiVersion": "v1", "kind": "Namespace", "name": "oil-dev", "uid": "u-oil-dev",
        },
        "type": "Normal",
        "reason": "TenantAssigned",
        "note": "Namespace oil-dev has been assigned to the desired Tenant",
        "related": ABOUT_OIL,
        "annotations": {
            "audit.projectcapsule.dev/request-uid": "r1",
            "audit.projectcapsule.dev/username": "alice",
        },
        "labels": {"projectcapsule.dev/tenant": "oil"},
        "apart": "",
    }  # fmt: skip


def test_a_refused_creation_is_told_of_its_tenant() -> None:
    (event,) = told(review(), admission.denied(reservations.QUOTA_EXCEEDED))
    assert (event["regarding"], event["related"]) == (ABOUT_OIL, None)
    assert (event["type"], event["reason"]) == ("Warning", "Overprovisioned")
    assert event["note"] == (
        f"CREATE of Namespace oil-dev by alice was refused: {reservations.QUOTA_EXCEEDED}"
    )


def test_a_refused_change_is_told_of_the_object() -> None:
    change = review("UPDATE", old=namespace("oil-dev"), object=namespace("oil-dev", tied=False))
    (event,) = told(change, admission.denied(ownership.NOT_REMOVABLE))
    assert event["regarding"]["name"] == "oil-dev"
    assert event["related"] == ABOUT_OIL
    assert event["reason"] == "ReasonNamespacePatch"


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        (review(dry_run=True), admission.Verdict()),
        (review(dry_run=True), admission.denied(reservations.QUOTA_EXCEEDED)),
        (review(object=namespace("x", tied=False)), admission.Verdict()),
        (review("UPDATE", old=namespace("oil-dev")), admission.Verdict()),
        (review(), admission.denied("Tenant is invalid")),
        (review(resource="pods", kind="Pod"), admission.Verdict()),
    ],
)
def test_nothing_else_is_told(of: admission.Review, verdict: admission.Verdict) -> None:
    assert told(of, verdict) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_who_broke_the_glass_is_told_with_what_was_there(dry_run: bool) -> None:
    recorder: Any = Recorder()
    change = review("UPDATE", old=namespace("oil-dev", tied=False), dry_run=dry_run)
    mended = break_glass.Mended(assignment.of(change.old), "oil")
    auditor = audit.Auditor(recorder, {"oil": OIL}.get)
    auditor.tell_mended(change, admission.Verdict())
    auditor.tell_mended(change, admission.Verdict(notes=(mended,)))
    assert len(recorder.told) == (0 if dry_run else 1)
    for event in recorder.told:
        assert event["regarding"]["name"] == "oil-dev"
        assert (event["type"], event["reason"]) == ("Warning", "BreakGlass")
        assert event["related"] == ABOUT_OIL
        assert event["note"] == (
            "tenantry.io/break-glass by alice: no tenant label and ownerReferences to [] become "
            "tenant oil"
        )
