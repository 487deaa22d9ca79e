"""Breaking the glass: who mends a namespace, into what, and what of it stays (specs/capsule 8)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant
from tenantry.directory import identity, owners
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import break_glass, namespaces

KEY, TENANT = "tenantry.io/break-glass", "capsule.clastix.io/tenant"
USERS = frozenset({"projectcapsule.dev"})
BOSS = identity.Requester("boss")
ALICE = identity.Requester("alice", USERS)
ROBOT = identity.Requester(
    "system:serviceaccount:oil-prod:robot",
    frozenset({"system:serviceaccounts", "system:serviceaccounts:oil-prod"}),
)
IGNORED = identity.Requester("boss", frozenset({"ignored"}))
ROOT = identity.Requester("root", frozenset({"system:masters"}))
#: Everybody but an administrator.
OTHERS = {
    "owner": ALICE,
    "owner of another tenant": identity.Requester("bob", USERS),
    "promoted account": ROBOT,
    "cluster-admin": ROOT,
    "administrator in an ignored group": IGNORED,
    "somebody whose name looks like it": identity.Requester("Boss", frozenset({"boss"})),
    "nobody": identity.Requester(""),
}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-c"}
STEPS = (break_glass.MUTATING, namespaces.MUTATING)
JUDGES = (break_glass.VALIDATING, namespaces.VALIDATING)
BOTH: Any = (STEPS, JUDGES)

FOR_ADMINISTRATORS = (
    "metadata.annotations[tenantry.io/break-glass] is accepted only from administrators listed "
    "in the CapsuleConfiguration"
)
FOR_UPDATES = (
    "metadata.annotations[tenantry.io/break-glass] is accepted only in an update of a namespace "
    "itself (not of its status or finalizers) that is not being deleted"
)


def tied(name: str, uid: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": name,
        "uid": uid or f"u-{name}",
    }  # fmt: skip


def namespace(
    label: str | None, *references: dict[str, Any], glass: str | None = None, **more: Any
) -> dict[str, Any]:
    labels = {} if label is None else {TENANT: label}
    annotations = {"a": "1"} if glass is None else {"a": "1", KEY: glass}
    metadata = {"name": "n", "labels": labels, "annotations": annotations, **more}
    return {"metadata": {**metadata, "ownerReferences": list(references)}}


def known(requester: identity.Requester, *, going: bool = False) -> evidence.Evidence:
    spec = configuration.CapsuleConfigurationSpec(
        users=[common.User(kind="Group", name="projectcapsule.dev")],
        administrators=[common.User(kind="User", name="boss")],
        ignore_user_with_groups=["ignored"],
    )
    found = {
        name: tenant.Tenant(
            metadata=meta.ObjectMeta(
                name=name, uid=f"u-{name}", deletion_timestamp="now" if going else None
            ),
            spec=tenant.TenantSpec(owners=[tenant.Owner(kind="User", name=owner)]),
        )
        for name, owner in (("oil", "alice"), ("gas", "bob"))
    }
    promoted = [owners.Promotion("oil-prod", "robot")]
    return evidence.Evidence(
        requester=requester,
        requester_class=identity.roster(spec, (), ()).classify(
            requester, lambda home: "oil" if home == "oil-prod" else None
        ),
        config=spec,
        tenants=found,
        owners_of=lambda t: owners.owners(
            t, spec, (), promoted if t.metadata.name == "oil" else ()
        ),
    )


def review(
    new: dict[str, Any] | None, old: dict[str, Any] | None, subresource: str = ""
) -> admission.Review:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    return admission.Review(
        uid="u", operation=operation, resource="namespaces", kind="Namespace", name="n",
        subresource=subresource, object=new, old=old,
    )  # fmt: skip


OIL = namespace("oil", tied("oil"))
#: What the webhooks would never have let through.
DAMAGED = {
    "label and reference differ": namespace("oil", tied("gas")),
    "a label alone": namespace("oil"),
    "a reference alone": namespace(None, tied("gas")),
    "the uid is another's": namespace("oil", tied("oil", "u-gas")),
    "the tenant is gone": namespace("lost", tied("lost")),
    "several references": namespace("oil", tied("oil"), tied("gas"), CONFIG_MAP),
    "the label is empty": namespace(""),
}


def glass(of: dict[str, Any], value: str | None) -> dict[str, Any]:
    annotations = {k: v for k, v in of["metadata"]["annotations"].items() if k != KEY}
    if value is not None:
        annotations[KEY] = value
    return {"metadata": {**of["metadata"], "annotations": annotations}}


# The attacks.


@pytest.mark.parametrize("who", OTHERS)
@pytest.mark.parametrize("value", ["tenant/oil", "tenant/gas", "none", "", "nonsense"])
def test_nobody_else_sets_it(who: str, value: str) -> None:
    for stored, steps in itertools.product([OIL, namespace(None), *DAMAGED.values()], BOTH):
        asked = review(glass(stored, value), stored)
        verdict = admission.run(steps, asked, known(OTHERS[who]))
        assert (verdict.allowed, verdict.code, verdict.message) == (False, 403, FOR_ADMINISTRATORS)
        assert not verdict.notes
        # Told where attempts at namespaces of others are told.
        assert verdict.event == "ReasonNamespacePatch"


@pytest.mark.parametrize("who", OTHERS)
@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
def test_nobody_else_sets_it_by_another_way(who: str, subresource: str) -> None:
    for old in (None, OIL, glass(OIL, "tenant/oil")):
        asked = review(glass(OIL, "tenant/gas"), old, subresource)
        verdict = admission.run(JUDGES, asked, known(OTHERS[who]))
        assert verdict.message == FOR_ADMINISTRATORS


@pytest.mark.parametrize("who", ["boss", *OTHERS])
def test_one_that_was_stored_before_helps_nobody_and_goes(who: str) -> None:
    """It came while nobody looked: whoever writes next is not who set it."""
    stored = namespace("oil", tied("oil"), glass="tenant/gas")
    wanted = {"metadata": {**stored["metadata"], "labels": {TENANT: "oil", "x": "y"}}}
    requester = BOSS if who == "boss" else OTHERS[who]
    verdict = admission.run((break_glass.MUTATING,), review(wanted, stored), known(requester))
    assert verdict.allowed
    assert not verdict.notes
    assert jsonpatch.apply(wanted, verdict.patch) == glass(wanted, None)
    assert verdict.warnings == (
        'annotation "tenantry.io/break-glass" was stored already and mends nothing; it is removed',
    )


def test_one_that_was_stored_before_locks_nobody_out() -> None:
    stored = namespace("oil", tied("oil"), glass="tenant/gas")
    for requester in (ALICE, ROOT, BOSS):
        for subresource in ("", "status", "finalize"):
            asked = review(stored, stored, subresource)
            assert admission.run(JUDGES, asked, known(requester)).allowed
    going = {"metadata": {**stored["metadata"], "deletionTimestamp": "now"}}
    assert admission.run(STEPS, review(going, going), known(ALICE)).patch == ()
    assert admission.run((*STEPS, *JUDGES), review(None, stored), known(ALICE)).allowed


def test_what_was_proposed_in_an_administrators_name_is_judged_by_who_it_is() -> None:
    """One who was an administrator a second ago moves nothing."""
    after = namespace("gas", tied("gas"))
    for requester in (ALICE, ROOT):
        assert not admission.run(JUDGES, review(after, OIL), known(requester)).allowed


@pytest.mark.parametrize(
    "value",
    ["", " ", "oil", "gas", "None", "tenant", "tenant/", "tenant/OIL", "tenant/../x", "tenants/oil",
     "tenant/oil ", "tenant/a/b", "tenant/" + "a" * 254, "true", "none\n", "x" * 200_000],
)  # fmt: skip
def test_malformed_values_are_refused_with_what_is_accepted(value: str) -> None:
    stored = DAMAGED["label and reference differ"]
    verdict = admission.run(STEPS, review(glass(stored, value), stored), known(BOSS))
    assert (verdict.allowed, verdict.code) == (False, 400)
    begin = f'metadata.annotations[{KEY}]: "{value[:20]}'.rstrip("\n")
    assert verdict.message.startswith(begin)
    assert verdict.message.endswith(
        'is not accepted; accepted is "tenant/<name>", the Tenant that the namespace shall '
        'belong to, or "none" for no tenant'
    )
    assert len(verdict.message) < 300
    assert break_glass.named(review(glass(stored, value), stored)) == frozenset()


def test_a_tenant_that_does_not_exist_is_refused() -> None:
    verdict = admission.run(STEPS, review(glass(OIL, "tenant/x"), OIL), known(BOSS))
    assert verdict.code == 400
    assert f'metadata.annotations[{KEY}]: tenant "x" not found' in verdict.message


def test_an_administrator_does_not_get_it_stored() -> None:
    wanted = glass(OIL, "tenant/gas")
    going = {"metadata": {**OIL["metadata"], "deletionTimestamp": "now"}}
    for asked in (
        review(wanted, None),
        review(wanted, OIL, "status"),
        review(wanted, OIL, "finalize"),
        review(glass(going, "tenant/gas"), going),
    ):
        assert admission.run(STEPS, asked, known(BOSS)).message == FOR_UPDATES
        assert admission.run(JUDGES, asked, known(BOSS)).message == FOR_UPDATES
    # Somebody wrote it after us.
    assert admission.run(JUDGES, review(wanted, OIL), known(BOSS)).message == FOR_UPDATES


def test_a_tenant_that_is_going_gets_nothing() -> None:
    stored = DAMAGED["label and reference differ"]
    evidence_ = known(BOSS, going=True)
    wanted = glass(stored, "tenant/gas")
    proposed = admission.run(STEPS, review(wanted, stored), evidence_)
    after = jsonpatch.apply(wanted, proposed.patch)
    verdict = admission.run(JUDGES, review(after, stored), evidence_)
    assert verdict.message == "tenant is terminating and does not accept new namespaces"


# What it does.


@pytest.mark.parametrize("damage", ["none", *DAMAGED])
@pytest.mark.parametrize("target", ["oil", "gas", None])
def test_an_administrator_mends(damage: str, target: str | None) -> None:
    stored = DAMAGED.get(damage, OIL)
    wanted = glass(stored, "none" if target is None else f"tenant/{target}")
    verdict = admission.run(STEPS, review(wanted, stored), known(BOSS))
    assert verdict.allowed, verdict.message
    after = jsonpatch.apply(wanted, verdict.patch)
    found = after["metadata"]
    others = [r for r in stored["metadata"]["ownerReferences"] if r["kind"] != "Tenant"]
    mine = [] if target is None else [tied(target)]
    assert found["ownerReferences"] == [*others, *mine]
    assert found["labels"].get(TENANT) == target
    assert found["annotations"] == {"a": "1"}
    assert admission.run(JUDGES, review(after, stored), known(BOSS)).allowed
    # Asked once more about its own work, as on reinvocation, it does nothing and tells nothing.
    again = admission.run(STEPS, review(after, stored), known(BOSS))
    assert again == admission.Verdict()
    (note,) = verdict.notes
    assert isinstance(note, break_glass.Mended)
    assert note.tenant == target


def test_without_it_the_damage_refuses_an_administrators_change() -> None:
    """What is mended, and why an annotation is needed at all (#2022)."""
    for damage in ("label and reference differ", "the uid is another's", "several references"):
        stored = DAMAGED[damage]
        wanted = {"metadata": {**stored["metadata"], "annotations": {"a": "2"}}}
        assert not admission.run(STEPS, review(wanted, stored), known(BOSS)).allowed


def test_what_is_told() -> None:
    stored = namespace("oil", tied("gas"))
    verdict = admission.run(STEPS, review(glass(stored, "tenant/oil"), stored), known(BOSS))
    (note,) = verdict.notes
    assert isinstance(note, break_glass.Mended)
    assert note.message == "label oil and ownerReferences to [gas (u-gas)] become tenant oil"
    stored = namespace(None)
    verdict = admission.run(STEPS, review(glass(stored, "none"), stored), known(BOSS))
    (note,) = verdict.notes
    assert isinstance(note, break_glass.Mended)
    assert note.message == "no tenant label and ownerReferences to [] become no tenant"


def test_objects_of_other_kinds_are_none_of_its_business() -> None:
    asked = admission.Review(
        uid="u", operation="CREATE", resource="pods", object=namespace(None, glass="none")
    )
    assert not break_glass.MUTATING.matches(asked)
    assert break_glass.asked(asked) is None
