"""Who gets a namespace, and who may move it: every row of specs/capsule 5.3 to 5.5."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant
from tenantry.directory import assignment, identity, owners
from tenantry.tenancy import evidence as evidences
from tenantry.tenancy import ownership, verdicts

ALICE = identity.Requester("alice", frozenset({"projectcapsule.dev"}))
BOB = identity.Requester("bob", frozenset({"projectcapsule.dev"}))
ROOT = identity.Requester("root", frozenset({"system:masters"}))
BOSS = identity.Requester("boss")

ADMIN, CAPSULE, UNKNOWN = identity.Class.ADMIN, identity.Class.CAPSULE, identity.Class.UNKNOWN
CLASSES = {ALICE: CAPSULE, BOB: CAPSULE, ROOT: UNKNOWN, BOSS: ADMIN}


def make_tenant(name: str, owner: str = "alice", **spec: Any) -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name=name, uid=f"uid-{name}"),
        spec=tenant.TenantSpec(owners=[tenant.Owner(kind="User", name=owner)], **spec),
    )


def evidence(
    requester: identity.Requester, *tenants: tenant.Tenant, force: bool = False
) -> evidences.Evidence:
    config = configuration.CapsuleConfigurationSpec(
        users=[common.User(kind="Group", name="projectcapsule.dev")],
        administrators=[common.User(kind="User", name="boss")],
        force_tenant_prefix=force,
    )
    return evidences.Evidence(
        requester=requester,
        requester_class=identity.roster(config, (), ()).classify(requester),
        config=config,
        tenants={t.metadata.name: t for t in tenants},
        owners_of=lambda t: owners.owners(t, config),
    )


def namespace(
    name: str = "ns", label: str | None = None, *references: str, **metadata: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, **metadata}
    if label is not None:
        found["labels"] = {"capsule.clastix.io/tenant": label}
    if references:
        found["ownerReferences"] = [
            {
                "apiVersion": "capsule.clastix.io/v1beta2",
                "kind": "Tenant",
                "name": reference.partition("/")[0],
                "uid": reference.partition("/")[2] or f"uid-{reference}",
            }
            for reference in references
        ]
    return {"metadata": found}


A, B = make_tenant("a"), make_tenant("b", owner="bob")
IN_A = namespace("ns", "a", "a")
IN_B = namespace("ns", "b", "b")
FREE = namespace("ns")


def outcome(result: Any) -> str | None:
    if isinstance(result, verdicts.Denial):
        return result.message
    return result.metadata.name if result is not None else None


OIL, OIL_BUMPER = make_tenant("oil"), make_tenant("oil-bumper")
FORCED, FREED = (
    make_tenant("f", force_tenant_prefix=True),
    make_tenant("f", force_tenant_prefix=False),
)
LIKE_T = make_tenant(
    "t", namespace_options=tenant.NamespaceOptions(name_template="{{tenant.name}}-*")
)
LIKE_DEV, LIKE_D = (
    make_tenant(name, namespace_options=tenant.NamespaceOptions(name_template=template))
    for name, template in (("dev", "*-dev"), ("d", "d-*-x"))
)
UNLIKE_D = (
    'The Namespace name must be like "d-*-x" (nameTemplate of Tenant d; * is any text of at least '
    'one character), not "d-y"'
)
UNLIKE_T = (
    'The Namespace name must be like "t-*" (nameTemplate of Tenant t; * is any text of at least one '
    'character), not "x"'
)
FORCED_MESSAGE = (
    "The Namespace name must start with 'f-' when ForceTenantPrefix is enabled in the Tenant."
)


@pytest.mark.parametrize(
    ("requester", "obj", "tenants", "force", "expected"),
    [
        pytest.param(ROOT, FREE, (A,), False, None, id="strangers pass untouched"),
        pytest.param(ROOT, IN_A, (A,), False, None, id="strangers are judged on the final object"),
        pytest.param(BOSS, FREE, (A,), False, None, id="administrators without tenant untouched"),
        pytest.param(BOSS, namespace("n", "a"), (A,), False, "a", id="administrators own all"),
        pytest.param(BOSS, namespace("n", None, "a"), (A,), False, "a", id="by reference alone"),
        pytest.param(
            BOSS,
            namespace("n", None, "a", "b"),
            (A, B),
            False,
            ownership.MULTIPLE_REFERENCES,
            id="by two references",
        ),
        pytest.param(ALICE, FREE, (A, B), False, "a", id="the only tenant"),
        pytest.param(ALICE, namespace("n", "a"), (A, B), False, "a", id="own label"),
        pytest.param(ALICE, namespace("n", "b"), (A, B), False, ownership.NOT_OWNED, id="foreign"),
        pytest.param(ALICE, namespace("n", "x"), (A,), False, ownership.NOT_OWNED, id="missing"),
        pytest.param(ALICE, namespace("n", ""), (A,), False, ownership.NOT_OWNED, id="empty label"),
        pytest.param(ALICE, FREE, (B,), False, ownership.NO_TENANT, id="owns none"),
        pytest.param(
            ALICE, namespace("n", None, "b"), (A, B), False, "a", id="foreign reference is nothing"
        ),
        pytest.param(
            ALICE, namespace("oil-bumper-x"), (OIL, OIL_BUMPER), False, "oil-bumper", id="longest"
        ),
        pytest.param(ALICE, namespace("oil-x"), (OIL, OIL_BUMPER), True, "oil", id="prefix"),
        pytest.param(
            ALICE, namespace("x"), (OIL, OIL_BUMPER), False, ownership.UNASSIGNABLE, id="no prefix"
        ),
        pytest.param(
            ALICE, namespace("x"), (OIL, OIL_BUMPER), True, ownership.PREFIX_UNKNOWN, id="forced"
        ),
        pytest.param(ALICE, namespace("n"), (FORCED,), False, FORCED_MESSAGE, id="single, forced"),
        pytest.param(
            ALICE, namespace("", None, generateName="f-"), (FORCED,), False, "f", id="generated"
        ),
        pytest.param(
            ALICE,
            namespace("", None, generateName="f"),
            (FORCED,),
            False,
            FORCED_MESSAGE,
            id="generated without prefix",
        ),
        pytest.param(
            ALICE, namespace("", None, generateName="t-"), (LIKE_T,), False, "t", id="template"
        ),
        pytest.param(ALICE, namespace("t-x", "t"), (LIKE_T,), True, "t", id="template and prefix"),
        pytest.param(ALICE, namespace("t-x-dev"), (LIKE_T,), False, "t", id="template, longer"),
        pytest.param(ALICE, namespace("x"), (LIKE_T,), False, UNLIKE_T, id="not the template"),
        pytest.param(BOSS, namespace("x", "t"), (LIKE_T,), False, UNLIKE_T, id="boss neither"),
        pytest.param(
            ALICE, namespace("a-dev"), (OIL, LIKE_DEV), False, "dev", id="a template chooses"
        ),
        pytest.param(
            ALICE, namespace("oil-dev"), (OIL, LIKE_DEV), False, "oil", id="a prefix comes first"
        ),
        pytest.param(
            ALICE, namespace("d-dev"), (LIKE_D, LIKE_DEV), False, "dev", id="template beats prefix"
        ),
        pytest.param(
            ALICE, namespace("d-y"), (LIKE_D, LIKE_DEV), False, UNLIKE_D, id="prefix, but unlike"
        ),
        pytest.param(
            ALICE,
            namespace("", None, generateName="a-dev-"),
            (OIL, LIKE_DEV),
            False,
            ownership.UNASSIGNABLE,
            id="generated names end otherwise",
        ),
        pytest.param(
            ALICE,
            namespace("a-dev"),
            (OIL, LIKE_DEV),
            True,
            ownership.PREFIX_UNKNOWN,
            id="a template does not lift the prefix",
        ),
        pytest.param(
            ALICE,
            namespace("a-dev"),
            (make_tenant("u", namespace_options=LIKE_DEV.spec.namespace_options), LIKE_DEV),
            False,
            ownership.UNASSIGNABLE,
            id="two templates choose nobody",
        ),
        pytest.param(ALICE, namespace("n", "f"), (FORCED,), False, FORCED_MESSAGE, id="tenant's"),
        pytest.param(ALICE, namespace("f-n", "f"), (FORCED,), False, "f", id="tenant's, kept"),
        pytest.param(ALICE, namespace("n", "f"), (FREED,), True, "f", id="tenant beats global"),
    ],
)
def test_assign(
    requester: identity.Requester,
    obj: dict[str, Any],
    tenants: tuple[tenant.Tenant, ...],
    force: bool,
    expected: str | None,
) -> None:
    result = ownership.assign(obj, evidence(requester, *tenants, force=force))
    assert outcome(result) == expected


def test_a_label_for_a_tenant_of_others_is_a_bad_request() -> None:
    result = ownership.assign(namespace("n", "b"), evidence(ALICE, A, B))
    assert isinstance(result, verdicts.Denial)
    assert result.code == 400


@pytest.mark.parametrize(
    ("requester", "old", "new", "expected"),
    [
        # An owner and the namespace of her own tenant: whatever she writes is put back.
        pytest.param(ALICE, IN_A, IN_A, "a", id="unchanged"),
        pytest.param(ALICE, IN_A, namespace("ns", "b", "a"), "a", id="label alone"),
        pytest.param(ALICE, IN_A, namespace("ns", "a", "b"), "a", id="reference alone"),
        pytest.param(ALICE, IN_A, namespace("ns", "a", "a", "b"), "a", id="second reference"),
        pytest.param(ALICE, IN_A, IN_B, ownership.NOT_MIGRATABLE, id="to another tenant"),
        pytest.param(ALICE, IN_A, FREE, ownership.NOT_REMOVABLE, id="out"),
        # The namespaces of others, and of nobody.
        pytest.param(ALICE, IN_B, IN_B, ownership.PATCH_DENIED, id="foreign, unchanged"),
        pytest.param(ALICE, IN_B, IN_A, ownership.NOT_MIGRATABLE, id="foreign, pulled over"),
        pytest.param(
            ALICE, namespace("ns", "a", "b"), IN_A, ownership.INCOMPLETE, id="damaged before"
        ),
        pytest.param(ALICE, FREE, FREE, ownership.NOT_OWNED_BY_ANY, id="unmanaged"),
        pytest.param(ALICE, FREE, IN_A, ownership.NOT_PATCHABLE_IN, id="unmanaged, pulled in"),
        pytest.param(
            ALICE, namespace("kube-system"), namespace("kube-system", "a"),
            ownership.NOT_PATCHABLE_IN, id="kube-system by label",
        ),
        # Administrators move, complete and detach.
        pytest.param(BOSS, FREE, namespace("ns", "a"), "a", id="join by label"),
        pytest.param(BOSS, FREE, namespace("ns", None, "a"), "a", id="join by reference"),
        pytest.param(BOSS, IN_A, FREE, None, id="detach"),
        pytest.param(BOSS, FREE, namespace("ns", "x"), 'tenant "x" not found', id="to nowhere"),
        pytest.param(BOSS, IN_A, IN_B, "b", id="migrate"),
        pytest.param(
            BOSS, IN_A, namespace("ns", "b", "a"),
            'namespace label "b" does not match owner reference "a"', id="contradiction",
        ),
        pytest.param(
            BOSS, FREE, namespace("ns", "a", "a", "b"), ownership.MULTIPLE_REFERENCES, id="two",
        ),
        pytest.param(
            BOSS, FREE, namespace("ns", "a", "a/other"),
            'tenant ownerReference UID mismatch: "other" is not the uid "uid-a" of tenant "a"',
            id="wrong uid",
        ),
        pytest.param(ROOT, IN_A, IN_B, None, id="strangers are judged on the final object"),
    ],
)  # fmt: skip
def test_rebind(
    requester: identity.Requester, old: dict[str, Any], new: dict[str, Any], expected: str | None
) -> None:
    assert outcome(ownership.rebind(old, new, evidence(requester, A, B))) == expected


@pytest.mark.parametrize(
    ("requester", "obj", "expected"),
    [
        pytest.param(ROOT, FREE, None, id="stranger, free"),
        pytest.param(ROOT, IN_A, ownership.ONLY_OWNERS, id="stranger, owned"),
        pytest.param(ROOT, namespace("n", None, "a"), ownership.ONLY_OWNERS, id="stranger, half"),
        pytest.param(ALICE, IN_A, "a", id="owner"),
        pytest.param(ALICE, IN_B, ownership.NOT_OWNED, id="foreign"),
        pytest.param(ALICE, FREE, ownership.NO_TENANT, id="lost its tenant after our mutation"),
        pytest.param(ALICE, namespace("n", "a"), ownership.INCOMPLETE, id="label alone"),
        pytest.param(ALICE, namespace("n", "a", "a", "b"), ownership.INCOMPLETE, id="two"),
        pytest.param(ALICE, namespace("n", "a", "a/old"), ownership.NOT_OWNED, id="stale uid"),
        pytest.param(BOSS, FREE, None, id="administrator, free"),
        pytest.param(BOSS, IN_B, "b", id="administrator"),
        pytest.param(BOSS, namespace("n", "a"), ownership.INCONSISTENT, id="administrator, half"),
    ],
)
def test_validate_create(
    requester: identity.Requester, obj: dict[str, Any], expected: str | None
) -> None:
    assert outcome(ownership.validate_create(obj, evidence(requester, A, B))) == expected


def test_a_tenant_being_deleted_takes_no_namespaces() -> None:
    dying = make_tenant("a")
    dying.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    result = ownership.validate_create(IN_A, evidence(ALICE, dying))
    assert outcome(result) == ownership.TERMINATING


HALF_A = namespace("ns", "a")
DYING_A = namespace("ns", "a", "a", deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("requester", "old", "new", "finalize", "expected"),
    [
        # People without any role in the tenancy, cluster-admins among them.
        pytest.param(ROOT, FREE, FREE, False, None, id="unmanaged stays free"),
        pytest.param(ROOT, FREE, IN_A, False, ownership.NOT_PATCHABLE_IN, id="in"),
        pytest.param(ROOT, FREE, HALF_A, False, ownership.NOT_PATCHABLE_IN, id="half in"),
        pytest.param(ROOT, IN_A, FREE, False, ownership.NOT_REMOVABLE, id="out"),
        pytest.param(ROOT, IN_A, IN_B, False, ownership.NOT_MIGRATABLE, id="over"),
        pytest.param(ROOT, IN_A, HALF_A, False, ownership.INCOMPLETE, id="reference dropped"),
        pytest.param(
            ROOT, IN_A, namespace("ns", "a", "a/x"), False, ownership.INCOMPLETE, id="uid changed"
        ),
        pytest.param(ROOT, IN_A, IN_A, False, "a", id="rules of the tenant apply"),
        pytest.param(ROOT, HALF_A, HALF_A, False, None, id="damaged stays usable for the system"),
        # Owners.
        pytest.param(ALICE, IN_A, IN_A, False, "a", id="owner"),
        pytest.param(ALICE, IN_B, IN_B, False, ownership.PATCH_DENIED, id="not the owner"),
        pytest.param(ALICE, IN_A, IN_B, False, ownership.NOT_MIGRATABLE, id="owner, over"),
        pytest.param(ALICE, FREE, FREE, False, ownership.NOT_OWNED_BY_ANY, id="unmanaged"),
        pytest.param(ALICE, HALF_A, HALF_A, False, ownership.INCOMPLETE, id="damaged"),
        # Subresources and termination: nothing moves.
        pytest.param(ALICE, IN_A, IN_B, True, ownership.FIXED_DURING_TERMINATION, id="finalize"),
        pytest.param(BOSS, DYING_A, FREE, False, ownership.FIXED_DURING_TERMINATION, id="dying"),
        pytest.param(ROOT, DYING_A, DYING_A, False, None, id="dying, unchanged"),
        # Administrators.
        pytest.param(BOSS, FREE, IN_A, False, None, id="join skips the chain"),
        pytest.param(BOSS, IN_A, FREE, False, None, id="detach"),
        pytest.param(BOSS, IN_A, IN_A, False, "a", id="administrator, unchanged"),
        pytest.param(BOSS, IN_A, HALF_A, False, ownership.INCONSISTENT, id="half"),
        pytest.param(
            BOSS, FREE, namespace("ns", "a", "a/x"), False, ownership.INCONSISTENT, id="bad uid"
        ),
    ],
)
def test_validate_update(
    requester: identity.Requester,
    old: dict[str, Any],
    new: dict[str, Any],
    finalize: bool,
    expected: str | None,
) -> None:
    result = ownership.validate_update(old, new, evidence(requester, A, B), finalize=finalize)
    assert outcome(result) == expected


def test_a_reference_of_any_version_counts() -> None:
    old = {"metadata": {"ownerReferences": [
        {"apiVersion": "capsule.clastix.io/v1beta1", "kind": "Tenant", "name": "a", "uid": "u"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"},
    ]}}  # fmt: skip
    assert assignment.of(old).references == (("a", "u"),)


@pytest.mark.parametrize(
    ("requester", "proposed", "judged"),
    [
        pytest.param(BOSS, "a", None, id="an administrator, who leaves the label alone"),
        pytest.param(ALICE, "a", ownership.INCOMPLETE, id="the owner of the new tenant"),
        pytest.param(ROOT, None, ownership.INCOMPLETE, id="a cluster-admin"),
    ],
)
def test_who_ties_a_restored_namespace_to_the_tenant_of_its_label(
    requester: identity.Requester, proposed: str | None, judged: str | None
) -> None:
    """After a restore tenants have other uids (specs/capsule 8, row 29)."""
    stored = namespace("n", "a", "a/old")
    known = evidence(requester, A, B)
    assert outcome(ownership.rebind(stored, namespace("n", "a"), known)) == proposed
    assert outcome(ownership.validate_update(stored, IN_A, known)) == judged
