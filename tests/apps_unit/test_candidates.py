"""Which tenants are read for a namespace without a label: enough to decide, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant
from tenantry.apps import candidates
from tenantry.directory import identity, owners
from tenantry.runtime import admission
from tenantry.tenancy import evidence, ownership, verdicts

ALICE = identity.Requester("alice")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dev", []),
        ("oil-dev", ["oil"]),
        ("oil-gas-dev", ["oil", "oil-gas"]),
        ("oil-", ["oil"]),
        ("-oil", []),
        ("oil--x", ["oil"]),
        ("", []),
        ("Oil-x", []),
        ("a/b-c", []),
    ],
)
def test_who_could_claim_a_name(name: str, expected: list[str]) -> None:
    assert candidates.claimants(name) == expected


def test_memory_proposes_and_the_name_does() -> None:
    assert candidates.proposed("dev", {"oil"}, {"oil", "gas"}) == frozenset({"oil"})
    assert candidates.proposed("gas-dev", {"oil"}, {"oil"}) == frozenset({"oil", "gas"})
    assert candidates.proposed("dev", set(), {"oil"}) == frozenset()


def test_a_name_full_of_dashes_is_not_worth_as_many_requests() -> None:
    assert candidates.proposed("a-b-c-d-e", set(), set()) is not None
    assert candidates.proposed("a-b-c-d-e-f", set(), set()) is None
    # Only those that memory does not know count: they would be asked for in vain.
    assert candidates.proposed("a-b-c-d-e-f", set(), {"a", "a-b"}) is not None


def review(operation: Any = "CREATE", **metadata: Any) -> admission.Review:
    obj = {"metadata": metadata}
    return admission.Review(uid="u", operation=operation, resource="namespaces", object=obj)


@pytest.mark.parametrize(
    ("request_", "klass", "expected"),
    [
        (review(name="x"), identity.Class.CAPSULE, True),
        (review(name="x"), identity.Class.ADMIN, False),
        (review(name="x"), identity.Class.UNKNOWN, False),
        (review("UPDATE", name="x"), identity.Class.CAPSULE, False),
        (
            review(name="x", labels={"capsule.clastix.io/tenant": "oil"}),
            identity.Class.CAPSULE,
            False,
        ),
    ],
)
def test_when_the_choice_is_ours(
    request_: admission.Review, klass: identity.Class, expected: bool
) -> None:
    assert candidates.is_open(request_, klass) is expected


def test_a_generated_name_is_known_by_its_beginning() -> None:
    assert candidates.name_of(review(generateName="oil-")) == "oil-"
    assert candidates.name_of(review(name="oil-x")) == "oil-x"
    assert candidates.name_of(admission.Review(uid="u", operation="DELETE", resource="x")) == ""


CONFIG = configuration.CapsuleConfigurationSpec(users=[common.User(kind="User", name="alice")])
FORCED = configuration.CapsuleConfigurationSpec(
    users=[common.User(kind="User", name="alice")], force_tenant_prefix=True
)
NAMES = ("a", "a-b", "a-b-c", "b", "dev")
TENANTS = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.booleans(), st.sampled_from([None, True, False]))
)


def made(found: dict[str, tuple[bool, bool | None]]) -> dict[str, tenant.Tenant]:
    return {
        name: tenant.Tenant(
            metadata=meta.ObjectMeta(name=name, uid=f"u-{name}"),
            spec=tenant.TenantSpec(
                owners=[tenant.Owner(kind="User", name="alice" if hers else "bob")],
                force_tenant_prefix=forced,
            ),
        )
        for name, (hers, forced) in found.items()
    }


def outcome(
    tenants: dict[str, tenant.Tenant], name: str, config: configuration.CapsuleConfigurationSpec
) -> str | None:
    known = evidence.Evidence(
        requester=ALICE,
        requester_class=identity.Class.CAPSULE,
        config=config,
        tenants=tenants,
        owners_of=lambda one: owners.owners(one, config),
    )
    found = ownership.assign({"metadata": {"name": name}}, known)
    if isinstance(found, verdicts.Denial):
        return found.message
    return found.metadata.name if found is not None else None


@given(
    live=TENANTS,
    remembered=TENANTS,
    name=st.sampled_from(["dev", "a-x", "a-b-x", "a-b-c-x", "b-x", "c-x", "a-", "x"]),
    config=st.sampled_from([CONFIG, FORCED]),
)
def test_whatever_memory_believes_what_is_read_decides_as_all_tenants_would(
    live: dict[str, tuple[bool, bool | None]],
    remembered: dict[str, tuple[bool, bool | None]],
    name: str,
    config: configuration.CapsuleConfigurationSpec,
) -> None:
    everything = made(live)
    hers = {known for known, (owned, _) in remembered.items() if owned}
    proposals = candidates.proposed(name, hers, remembered)
    assert proposals is not None
    read = {known: everything[known] for known in proposals if known in everything}
    owned = [known for known in read if live[known][0]]
    truly = {known for known, (owned_, _) in live.items() if owned_}
    if candidates.decided(name, owned):
        assert outcome(read, name, config) == outcome(everything, name, config)
    else:
        # No tenant of hers claims the name, known to memory or not.
        assert not candidates.decided(name, truly)
        if truly <= hers:
            assert outcome(read, name, config) == outcome(everything, name, config)


def namespace(label: str | None = None, *references: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "ns"}
    if label is not None:
        metadata["labels"] = {"capsule.clastix.io/tenant": label}
    if references:
        metadata["ownerReferences"] = [
            {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": name, "uid": "u"}
            for name in references
        ]
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(namespace(), None, [], id="none"),
        pytest.param(namespace("a"), None, ["a"], id="label"),
        pytest.param(namespace(None, "b", "a"), None, ["a", "b"], id="two references"),
        pytest.param(namespace("a", "b"), None, ["a", "b"], id="label and reference"),
        # A change concerns what is stored and what shall be.
        pytest.param(namespace("b", "b"), namespace("a", "a"), ["a", "b"], id="moved"),
        pytest.param(namespace(), namespace("a", "a"), ["a"], id="stripped"),
        pytest.param(namespace(), namespace(), [], id="none of ours"),
        pytest.param(None, namespace("a", "a"), ["a"], id="deleted"),
        # What no tenant can be called would change the path of the request.
        pytest.param(namespace("", ""), None, [], id="empty"),
        pytest.param(namespace("a/../b"), None, [], id="slash"),
        pytest.param(namespace("..", "."), None, [], id="dots"),
        pytest.param(namespace("a%2Fb"), None, [], id="percent"),
        pytest.param(namespace("a?x=y"), None, [], id="query"),
        pytest.param(namespace("a#b"), None, [], id="fragment"),
    ],
)
def test_tenants_mentioned(
    new: dict[str, Any] | None, old: dict[str, Any] | None, expected: list[str]
) -> None:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    review = admission.Review(
        uid="u", operation=operation, resource="namespaces", object=new, old=old
    )
    assert sorted(candidates.mentioned(review)) == expected
