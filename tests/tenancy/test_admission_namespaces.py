"""Namespaces at admission: what is written into them, and the tenant's rules in order."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant
from tenantry.directory import identity, owners
from tenantry.runtime import admission, fields, jsonpatch
from tenantry.tenancy import evidence, ledger, metadata
from tenantry.tenancy.admission import namespaces

ALICE = identity.Requester("alice", frozenset({"projectcapsule.dev"}))
ROOT = identity.Requester("root", frozenset({"system:masters"}))
BOSS = identity.Requester("boss")
TENANT, NAME = "capsule.clastix.io/tenant", "kubernetes.io/metadata.name"
REFERENCE = {
    "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "oil", "uid": "u-oil",
}  # fmt: skip
FOREIGN = {**REFERENCE, "name": "gas", "uid": "u-gas"}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-c"}


def oil(options: dict[str, Any] | None = None, **spec: Any) -> tenant.Tenant:
    if options is not None:
        spec["namespace_options"] = tenant.NamespaceOptions(**options)
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil", uid="u-oil"),
        spec=tenant.TenantSpec(owners=[tenant.Owner(kind="User", name="alice")], **spec),
    )


def known(
    requester: identity.Requester = ALICE, *tenants: tenant.Tenant, **config: Any
) -> evidence.Evidence:
    spec = configuration.CapsuleConfigurationSpec(
        users=[common.User(kind="Group", name="projectcapsule.dev")],
        administrators=[common.User(kind="User", name="boss")],
        **config,
    )
    return evidence.Evidence(
        requester=requester,
        requester_class=identity.roster(spec, (), ()).classify(requester),
        config=spec,
        tenants={t.metadata.name: t for t in tenants or (oil(),)},
        owners_of=lambda t: owners.owners(t, spec),
    )


def review(
    new: dict[str, Any] | None, old: dict[str, Any] | None = None, **more: Any
) -> admission.Review:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    return admission.Review(
        **{
            "uid": "u",
            "operation": operation,
            "resource": "namespaces",
            "kind": "Namespace",
            "namespace": "oil-dev",
            "name": "oil-dev",
            "object": new,
            "old": old,
            **more,
        }
    )


def bare(name: str = "oil-dev", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def owned(
    labels: dict[str, str] | None = None, name: str = "oil-dev", **metadata: Any
) -> dict[str, Any]:
    return bare(
        name,
        labels={TENANT: "oil", NAME: name, **(labels or {})},
        ownerReferences=[REFERENCE],
        **metadata,
    )


def mutated(
    evidence_: evidence.Evidence, new: dict[str, Any], old: dict[str, Any] | None = None
) -> Any:
    verdict = admission.run((namespaces.MUTATING,), review(new, old), evidence_)
    if not verdict.allowed:
        return verdict.message
    result = jsonpatch.apply(new, verdict.patch)
    # What was made right once is right.
    again = admission.run((namespaces.MUTATING,), review(result, old), evidence_)
    assert again == admission.Verdict()
    result["metadata"].pop("managedFields", None)
    return result


def validated(
    evidence_: evidence.Evidence,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    verdict = admission.run((namespaces.VALIDATING,), review(new, old, **more), evidence_)
    return verdict.message


# The mutating side.


def test_an_owners_namespace_gets_label_reference_and_metadata() -> None:
    owner = oil(
        {"additional_metadata": common.Metadata(labels={"a": "1"}, annotations={"b": "2"})},
        node_selector={"pool": "oil"},
        cordoned=True,
    )
    assert mutated(known(ALICE, owner), bare(labels={"mine": "x"})) == bare(
        labels={
            "mine": "x", TENANT: "oil", NAME: "oil-dev", "a": "1",
            "projectcapsule.dev/cordoned": "true",
        },
        annotations={"b": "2", "scheduler.alpha.kubernetes.io/node-selector": "pool=oil"},
        ownerReferences=[REFERENCE],
    )  # fmt: skip


def test_a_new_namespace_says_which_fields_are_ours() -> None:
    """As an apply by the controller would, which therefore has nothing left to write."""
    owner = oil({"additional_metadata": common.Metadata(labels={"a": "1"}, annotations={"b": "2"})})
    theirs = {"manager": "kubectl-create", "operation": "Update", "fieldsV1": {}}
    obj = bare(labels={"mine": "x"}, managedFields=[theirs])
    verdict = admission.run((namespaces.MUTATING,), review(obj), known(ALICE, owner))
    result = jsonpatch.apply(obj, verdict.patch)
    assert result["metadata"]["managedFields"][0] == theirs
    wanted = metadata.desired(owner, "oil-dev", metadata.Metadata())
    desired = {"metadata": {"labels": dict(wanted.labels), "annotations": dict(wanted.annotations)}}
    assert not fields.differs(desired, result, "projectcapsule.dev/controller")
    assert fields.owned(result, "projectcapsule.dev/controller") == {
        "f:metadata": {
            "f:labels": {f"f:{key}": {} for key in wanted.labels},
            "f:annotations": {"f:b": {}},
        }
    }


def test_the_reference_is_not_a_controllers() -> None:
    (reference,) = mutated(known(), bare())["metadata"]["ownerReferences"]
    assert "controller" not in reference


def test_references_to_others_go_those_to_other_kinds_stay() -> None:
    result = mutated(known(), bare(ownerReferences=[CONFIG_MAP, FOREIGN]))
    assert result["metadata"]["ownerReferences"] == [CONFIG_MAP, REFERENCE]


def test_a_right_reference_stays_as_it_is() -> None:
    old_version = {**REFERENCE, "apiVersion": "capsule.clastix.io/v1beta1", "controller": True}
    obj = bare(labels={TENANT: "oil", NAME: "oil-dev"}, ownerReferences=[old_version])
    assert mutated(known(), obj) == obj


def test_a_generated_name_is_not_invented() -> None:
    obj = {"metadata": {"generateName": "oil-"}}
    owner = oil(
        {
            "additional_metadata_list": [
                tenant.SelectedMetadata(labels={"n": "{{namespace}}-x", "t": "{{tenant.name}}"})
            ]
        },
        force_tenant_prefix=True,
    )
    result = mutated(known(ALICE, owner), obj)
    assert result["metadata"]["labels"] == {TENANT: "oil", "t": "oil"}


def test_an_owners_update_is_put_back() -> None:
    stripped = owned()
    del stripped["metadata"]["labels"][TENANT]
    assert mutated(known(), stripped, owned()) == owned()


def test_who_and_what_the_mutation_leaves_alone() -> None:
    assert mutated(known(ROOT), bare()) == bare()
    assert mutated(known(BOSS), bare()) == bare()
    dying = owned(deletionTimestamp="2026-01-01T00:00:00Z")
    assert mutated(known(), bare(), dying) == bare()
    for ignored in (
        review(bare(), subresource="status"),
        review(None, owned()),
        review(bare(), resource="pods"),
        review(bare(), group="example.com"),
    ):
        verdict = admission.run((namespaces.MUTATING,), ignored, known())
        assert verdict == admission.Verdict()


def test_refusals_carry_their_code() -> None:
    foreign = review(bare(labels={TENANT: "gas"}))
    verdict = admission.run((namespaces.MUTATING,), foreign, known())
    assert (verdict.code, verdict.reason) == (400, "BadRequest")
    assert verdict.denied_by == "namespaces.assign"
    verdict = admission.run((namespaces.MUTATING,), review(bare(), bare()), known())
    assert (verdict.code, verdict.reason) == (403, "Forbidden")


# The validating side.

PREFIX = 'The namespace doesn\'t match the tenant prefix, expected prefix "oil-"'
PROTECTED = (
    "Creating namespaces with name matching ^kube- regexp is not allowed; "
    "please, reach out to the system administrators"
)


@pytest.mark.parametrize(
    ("evidence_", "obj", "expected"),
    [
        pytest.param(known(), owned(), "", id="in order"),
        pytest.param(known(ROOT), bare(), "", id="none of ours"),
        pytest.param(known(), bare(), "You do not have any Tenant assigned: please, reach out to "
                     "the system administrators", id="not assigned"),
        pytest.param(known(ALICE, oil(cordoned=True)), owned(), namespaces.CORDONED, id="cordoned"),
        pytest.param(known(BOSS, oil(cordoned=True)), owned(), "", id="cordoned, administrator"),
        pytest.param(known(protected_namespace_regex="^kube-"), owned(name="kube-x"), PROTECTED,
                     id="protected"),
        pytest.param(known(BOSS, protected_namespace_regex="^kube-"), owned(name="kube-x"),
                     PROTECTED, id="protected from administrators too"),
        pytest.param(known(protected_namespace_regex="^kube-"), owned(name="my-kube-x"), "",
                     id="not protected"),
        pytest.param(known(force_tenant_prefix=True), owned(name="dev"), PREFIX, id="prefix"),
        pytest.param(known(force_tenant_prefix=True), owned(), "", id="prefix kept"),
        pytest.param(known(ALICE, oil(force_tenant_prefix=False), force_tenant_prefix=True),
                     owned(name="dev"), "", id="tenant beats configuration"),
    ],
)  # fmt: skip
def test_creation(evidence_: evidence.Evidence, obj: dict[str, Any], expected: str) -> None:
    assert validated(evidence_, obj) == expected


SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"


def test_rules_fail_in_the_order_users_are_used_to() -> None:
    """Cordoning, protected names, prefix, node selector, forbidden, required (specs 5.5)."""
    owner = oil(
        {
            "forbidden_labels": common.Forbidden(denied=["no"]),
            "required_metadata": common.Metadata(labels={"must": "x"}),
        },
        cordoned=True,
        force_tenant_prefix=True,
    )
    obj = owned({"no": "1"}, name="kube-x", annotations={SELECTOR: "pool=gas"})
    config = {"protected_namespace_regex": "^kube-"}
    repairs: list[tuple[str, Any]] = [
        ("cordoned", lambda: setattr(owner.spec, "cordoned", False)),
        ("Creating namespaces with name", config.clear),
        ("tenant prefix", lambda: setattr(owner.spec, "force_tenant_prefix", False)),
        ("node-selector", lambda: obj["metadata"].pop("annotations")),
        ("namespace labels validation failed", lambda: obj["metadata"]["labels"].pop("no")),
        ('required label "must"', lambda: obj["metadata"]["labels"].update(must="x")),
    ]
    for words, repair in repairs:
        assert words in validated(known(ALICE, owner, **config), obj)
        repair()
    assert validated(known(ALICE, owner, **config), obj) == ""


def test_an_update_is_judged_by_what_it_changes() -> None:
    owner = oil({"forbidden_labels": common.Forbidden(denied=["no"])}, force_tenant_prefix=True)
    before = owned({"no": "1"}, name="kube-x")
    evidence_ = known(ALICE, owner, protected_namespace_regex="^kube-")
    assert validated(evidence_, owned({"no": "1", "a": "b"}, name="kube-x"), before) == ""
    changed = owned({"no": "2"}, name="kube-x")
    assert "namespace labels validation failed" in validated(evidence_, changed, before)


def test_forbidden_keys_bind_users_and_the_node_selector_everybody_but_administrators() -> None:
    owner = oil({"forbidden_labels": common.Forbidden(denied=["no"])})
    labelled = owned({"no": "1"})
    placed = owned(annotations={SELECTOR: "pool=gas"})
    assert validated(known(ROOT, owner), labelled, owned()) == ""
    assert "cannot be updated" in validated(known(ROOT, owner), placed, owned())
    assert validated(known(BOSS, owner), placed, owned()) == ""


def test_an_administrators_transition_skips_the_rules() -> None:
    owner = oil({"required_metadata": common.Metadata(labels={"must": "x"})})
    assert validated(known(BOSS, owner), owned(), bare()) == ""
    assert 'required label "must"' in validated(known(BOSS, owner), owned())


@pytest.mark.parametrize("subresource", ["status", "finalize"])
def test_subresources_are_requests_like_any_other(subresource: str) -> None:
    assert validated(known(ROOT), owned(), owned(), subresource=subresource) == ""
    assert validated(known(ROOT), bare(), owned(), subresource=subresource) != ""
    assert validated(known(ROOT), owned(), bare(), subresource=subresource) != ""


def test_finalizing_skips_the_rules_but_not_the_ownership() -> None:
    frozen = known(ALICE, oil(cordoned=True))
    assert validated(frozen, owned(), owned(), subresource="finalize") == ""
    assert validated(frozen, owned(), owned()) == namespaces.CORDONED


@pytest.mark.parametrize("going", [{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
def test_finalizing_moves_no_pods(going: dict[str, Any]) -> None:
    key = "scheduler.alpha.kubernetes.io/node-selector"
    here, there = ({"annotations": {key: f"pool={name}"}, **going} for name in ("oil", "gas"))
    for owner in (oil(), oil(node_selector={"pool": "oil"})):
        for who, words in ((ALICE, "node-selector annotation"), (ROOT, "")):
            text = validated(known(who, owner), owned(**there), owned(**here),
                             subresource="finalize")  # fmt: skip
            assert (words in text, bool(text)) == (True, bool(words))


@pytest.mark.parametrize(
    ("evidence_", "old", "expected"),
    [
        pytest.param(known(), owned(), "", id="in order"),
        pytest.param(known(ALICE, oil(cordoned=True)), owned(), namespaces.CORDONED, id="cordoned"),
        pytest.param(
            known(ALICE, oil(cordoned=True)),
            owned(deletionTimestamp="2026-01-01T00:00:00Z"),
            "",
            id="terminating already",
        ),
        pytest.param(known(ROOT, oil(cordoned=True)), owned(), "", id="cordoned, others"),
        pytest.param(known(BOSS, oil(cordoned=True)), owned(), "", id="cordoned, administrator"),
        pytest.param(known(), bare(labels={TENANT: "gone"}), "", id="its tenant is gone"),
        pytest.param(known(), bare(), "", id="none of ours"),
    ],
)
def test_deletion(evidence_: evidence.Evidence, old: dict[str, Any], expected: str) -> None:
    assert validated(evidence_, None, old) == expected


# What is counted.


def test_a_creation_takes_one_of_the_quota() -> None:
    found = owned(uid="u-ns")
    assert namespaces.reservation(review(found), known()) == (
        oil(),
        ledger.Claim(uid="u-ns", name="oil-dev"),
    )


@pytest.mark.parametrize(
    "request_",
    [
        review(owned(uid="u-ns"), owned(uid="u-ns")),
        review(None, owned(uid="u-ns")),
        review(bare(uid="u-ns")),
        review(bare(uid="u-ns", labels={TENANT: "gone"})),
        review(owned(uid="u-ns"), resource="pods"),
        review(owned(uid="u-ns"), group="example.com"),
        review(None),
    ],
)
def test_nothing_else_does(request_: admission.Review) -> None:
    assert namespaces.reservation(request_, known()) is None
