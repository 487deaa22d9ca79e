"""The directory is right in whatever order the watches tell it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant, tenant_owner
from tenantry.directory import identity, owners, state

GROUP = "capsule.clastix.io"


def namespace(
    name: str = "ns", label: str | None = "oil", *references: dict[str, Any], **metadata: Any
) -> bytes:
    found: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", **metadata}
    if label is not None:
        found["labels"] = {f"{GROUP}/tenant": label}
    if references:
        found["ownerReferences"] = list(references)
    return msgspec.json.encode({"metadata": found, "spec": {"x": 1}})


def reference(name: str = "oil", kind: str = "Tenant", version: str = f"{GROUP}/v1beta2") -> Any:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}"}


OTHER = reference("oil", "ConfigMap", "v1")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(namespace("ns", "oil", reference()), "oil", id="both"),
        pytest.param(
            namespace("ns", "oil", reference(version=f"{GROUP}/v1beta1")), "oil", id="old version"
        ),
        pytest.param(namespace("ns", "oil", OTHER, reference()), "oil", id="others beside it"),
        pytest.param(namespace("ns", "oil"), None, id="label alone"),
        pytest.param(namespace("ns", None, reference()), None, id="reference alone"),
        pytest.param(namespace("ns", "gas", reference()), None, id="contradiction"),
        pytest.param(
            namespace("ns", "oil", reference(), reference("gas")), None, id="two references"
        ),
        pytest.param(
            namespace("ns", "oil", reference(version="example.com/v1")), None, id="foreign group"
        ),
        pytest.param(
            namespace("ns", "oil", reference(version=f"{GROUP}.evil.io/v1")), None, id="similar"
        ),
        pytest.param(namespace("ns", "oil", reference(kind="Owner")), None, id="foreign kind"),
        pytest.param(namespace("ns", None), None, id="free"),
    ],
)
def test_a_namespace_belongs_where_label_and_reference_agree(
    raw: bytes, expected: str | None
) -> None:
    view = state.namespace_view(raw)
    assert view.tenant == expected
    assert view.tenant_uid == ("uid-oil" if expected else "")
    assert view.raw == (raw if expected else b"")
    assert (view.name, view.uid, view.resource_version) == ("ns", "uid-ns", "7")
    assert not view.terminating


def test_a_deleted_namespace_is_terminating() -> None:
    raw = namespace("ns", "oil", reference(), deletionTimestamp="2026-01-01T00:00:00Z")
    assert state.namespace_view(raw).terminating


def view(name: str, tenant_name: str | None) -> state.NamespaceView:
    if tenant_name is None:
        return state.namespace_view(namespace(name, None))
    return state.namespace_view(namespace(name, tenant_name, reference(tenant_name)))


def make_tenant(name: str, *owned_by: str) -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name=name),
        spec=tenant.TenantSpec(owners=[tenant.Owner(kind="User", name=n) for n in owned_by]),
    )


def make_owner(name: str, of: str) -> tenant_owner.TenantOwner:
    return tenant_owner.TenantOwner(
        metadata=meta.ObjectMeta(name=name, labels={"projectcapsule.dev/tenant": of}),
        spec=tenant_owner.TenantOwnerSpec(kind="User", name=name),
    )


CONFIG = configuration.CapsuleConfiguration(
    metadata=meta.ObjectMeta(name="default"),
    spec=configuration.CapsuleConfigurationSpec(
        users=[common.User(kind="User", name="alice")], allow_service_account_promotion=True
    ),
)


def fresh() -> state.Directory:
    return state.Directory(["the-controller"], "default")


def test_an_empty_directory_knows_nobody() -> None:
    directory = fresh()
    assert directory.classify(identity.Requester("alice")) is identity.Class.UNKNOWN
    assert directory.classify(identity.Requester("the-controller")) is identity.Class.ADMIN
    assert directory.tenant_named("oil") is None
    assert directory.namespace("ns") is None
    assert directory.tenant_of("ns") is None
    assert directory.namespaces_of("oil") == []
    assert directory.promotions_of("oil") == []


def test_only_the_configuration_in_use_counts_and_its_loss_is_the_default() -> None:
    directory = fresh()
    directory.configuration_changed("other", CONFIG)
    assert directory.config.users == []
    directory.configuration_changed("default", CONFIG)
    assert directory.classify(identity.Requester("alice")) is identity.Class.CAPSULE
    directory.configuration_changed("default", None)
    assert directory.classify(identity.Requester("alice")) is identity.Class.UNKNOWN


def test_the_roster_follows_tenant_owners() -> None:
    directory = fresh()
    erin = identity.Requester("erin")
    assert directory.classify(erin) is identity.Class.UNKNOWN
    directory.tenant_owner_changed("erin", make_owner("erin", "oil"))
    assert directory.classify(erin) is identity.Class.CAPSULE
    assert directory.roster is directory.roster
    directory.tenant_owner_changed("erin", None)
    assert directory.classify(erin) is identity.Class.UNKNOWN


def test_a_service_account_is_at_home_in_its_tenant() -> None:
    directory = fresh()
    robot = identity.Requester("system:serviceaccount:ns:robot")
    directory.namespace_changed("ns", view("ns", "oil"))
    assert directory.classify(robot) is identity.Class.CAPSULE
    directory.namespace_changed("ns", view("ns", None))
    assert directory.classify(robot) is identity.Class.UNKNOWN


@dataclasses.dataclass(frozen=True)
class Change:
    """One thing a watch can tell."""

    key: str
    apply: Callable[[state.Directory], None]


def _namespace(name: str, of: str | None) -> Change:
    found = None if of == "gone" else view(name, of)
    return Change(f"ns/{name}", lambda d: d.namespace_changed(name, found))


def _tenant(name: str, *owned_by: str) -> Change:
    found = make_tenant(name, *owned_by) if owned_by else None
    return Change(f"tenant/{name}", lambda d: d.tenant_changed(name, found))


def _owner(name: str, of: str) -> Change:
    found = make_owner(name, of) if of else None
    return Change(f"owner/{name}", lambda d: d.tenant_owner_changed(name, found))


def _promotion(namespace_name: str, *, there: bool) -> Change:
    found = owners.Promotion(namespace_name, "robot") if there else None
    return Change(
        f"sa/{namespace_name}", lambda d: d.promotion_changed(namespace_name, "robot", found)
    )


def _config(*, there: bool) -> Change:
    found = CONFIG if there else None
    return Change("config", lambda d: d.configuration_changed("default", found))


CHANGES = st.one_of(
    st.builds(
        _namespace, st.sampled_from(["n1", "n2"]), st.sampled_from(["oil", "gas", None, "gone"])
    ),
    st.builds(_tenant, st.sampled_from(["oil", "gas"]), st.sampled_from(["alice", "bob"])),
    st.builds(_tenant, st.sampled_from(["oil", "gas"])),
    st.builds(_owner, st.just("erin"), st.sampled_from(["oil", "gas", ""])),
    st.builds(_promotion, st.sampled_from(["n1", "n2"]), there=st.booleans()),
    st.builds(_config, there=st.booleans()),
)


def answers(directory: state.Directory) -> Any:
    """Return everything that can be asked."""
    people = ("alice", "erin", "system:serviceaccount:n1:robot")
    return {
        "members": {t: [v.name for v in directory.namespaces_of(t)] for t in ("oil", "gas")},
        "tenant_of": {n: directory.tenant_of(n) for n in ("n1", "n2")},
        "promotions": {t: directory.promotions_of(t) for t in ("oil", "gas")},
        "classes": [directory.classify(identity.Requester(name)) for name in people],
        "owners": {
            found.metadata.name: directory.owners_of(found)
            for found in sorted(directory.tenants(), key=lambda t: t.metadata.name)
        },
        "owned": [directory.owned_by(identity.Requester(name)) for name in people],
        "names": sorted(directory.tenant_names()),
        "tenant_owners": [found.metadata.name for found in directory.tenant_owners()],
    }


@given(st.lists(CHANGES, max_size=30), st.randoms(use_true_random=False))
def test_only_the_last_word_on_each_object_counts(changes: list[Change], random: Any) -> None:
    """Kinds overtake each other; one object's events stay in order."""
    told = fresh()
    for change in changes:
        change.apply(told)
        answers(told)  # asking in between must not freeze anything
    last = list({change.key: change for change in changes}.values())
    random.shuffle(last)
    again = fresh()
    for change in last:
        change.apply(again)
    assert answers(told) == answers(again)


@given(st.lists(CHANGES, max_size=30))
def test_no_tenant_that_somebody_owns_is_overlooked(changes: list[Change]) -> None:
    directory = fresh()
    for change in changes:
        change.apply(directory)
    for name in ("alice", "bob", "erin", "system:serviceaccount:n1:robot"):
        requester = identity.Requester(name, frozenset({"oil-team"}))
        owned = {
            found.metadata.name
            for found in directory.tenants()
            if owners.is_owner(directory.owners_of(found), requester)
        }
        assert owned <= directory.owned_by(requester)


@pytest.mark.parametrize(
    ("requester", "expected"),
    [
        (identity.Requester("alice"), {"oil"}),
        (identity.Requester("x", frozenset({"team"})), {"gas"}),
        (identity.Requester("team"), set()),
        (identity.Requester("system:serviceaccount:ci:robot"), {"gas"}),
        (identity.Requester("erin"), {"oil", "sun"}),
        (identity.Requester("nobody"), set()),
    ],
)
def test_who_may_own_what(requester: identity.Requester, expected: set[str]) -> None:
    directory = fresh()
    gas = make_tenant("gas")
    gas.spec.owners = [
        tenant.Owner(kind="Group", name="team"),
        tenant.Owner(kind="ServiceAccount", name="system:serviceaccount:ci:robot"),
    ]
    sun = make_tenant("sun")
    sun.spec.permissions.match_owners = [meta.LabelSelector(match_labels={"team": "sun"})]
    for found in (make_tenant("oil", "alice"), gas, sun):
        directory.tenant_changed(found.metadata.name, found)
    erin = make_owner("erin", "oil")
    erin.metadata.labels["team"] = "sun"
    directory.tenant_owner_changed("erin", erin)
    directory.tenant_owner_changed("gone", make_owner("erin", "no-such-tenant"))
    assert directory.owned_by(requester) == expected


def test_owners_at_home_in_a_namespace() -> None:
    known = state.Directory((), "default")
    robot = tenant.Owner(kind="ServiceAccount", name="system:serviceaccount:ci:robot")
    everybody = tenant.Owner(kind="Group", name="system:serviceaccounts:ops")

    def put(name: str, *entries: tenant.Owner) -> None:
        metadata = meta.ObjectMeta(name=name, uid=name)
        spec = tenant.TenantSpec(owners=list(entries))
        known.tenant_changed(name, tenant.Tenant(metadata=metadata, spec=spec))

    put("oil", robot)
    put("gas", robot, everybody)
    assert known.owner_at_home("ci", besides="oil") == robot.name
    assert known.owner_at_home("ops", besides="oil") == everybody.name
    assert known.owner_at_home("ops", besides="gas") == ""
    put("gas")
    assert known.owner_at_home("ci", besides="oil") == ""
    assert known.owner_at_home("ci", besides="gas") == robot.name
    known.tenant_changed("oil", None)
    assert known.owner_at_home("ci", besides="gas") == ""
