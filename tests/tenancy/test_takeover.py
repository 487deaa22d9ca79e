"""Whose keys are removed when nobody wants them: ours and Capsule's, nobody else's."""

from __future__ import annotations

from typing import Any

from tenantry.api import meta
from tenantry.api.capsule import common, constants, tenant
from tenantry.tenancy import metadata, takeover
from tenantry.tenancy.controllers import namespaces

NOTHING = metadata.Metadata()


def namespace(**owned_by: list[str]) -> dict[str, Any]:
    """Return a namespace with labels, each written by a manager by Update."""
    labels = {label: "x" for owned in owned_by.values() for label in owned}
    entries = [
        {
            "manager": manager.replace("_", "-"),
            "operation": "Update",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, **{f"f:{label}": {} for label in owned}}}
            },
        }
        for manager, owned in owned_by.items()
    ]
    return {"metadata": {"labels": labels, "managedFields": entries}}


def test_what_capsule_wrote_is_managed() -> None:
    found = namespace(capsule=["a"], kubectl_edit=["b"])
    assert takeover.managed_keys(found, NOTHING) == ({"a"}, set())


def test_a_name_that_others_have_too_counts_only_for_what_is_on_record() -> None:
    found = namespace(cmd=["a", "b"], manager=["c"])
    assert takeover.managed_keys(found, NOTHING) == (set(), set())
    recorded = metadata.Metadata({"a": "x", "c": "x"}, {"b": "x"})
    assert takeover.managed_keys(found, recorded) == ({"a", "c"}, set())


def test_our_own_share_is_managed() -> None:
    found = namespace(x=["a"])
    found["metadata"]["managedFields"][0] |= {
        "manager": constants.FIELD_MANAGER,
        "operation": "Apply",
    }
    assert takeover.managed_keys(found, NOTHING) == ({"a"}, set())


def test_only_what_is_not_wanted_goes() -> None:
    found = namespace(capsule=["kept", "gone"])
    assert namespaces.stale_keys(found, metadata.Metadata({"kept": "y"}), NOTHING) == [
        {"op": "test", "path": "/metadata/labels/gone", "value": "x"},
        {"op": "remove", "path": "/metadata/labels/gone"},
    ]


def marked(version: object, **labels: str) -> dict[str, Any]:
    """Return a namespace that somebody's `kubectl` wrote at a version."""
    found = namespace(kubectl=list(labels))
    found["metadata"] |= {"labels": labels, "resourceVersion": str(version)}
    return found


def test_what_admission_wrote_under_earlier_words_goes_too() -> None:
    added = tenant.NamespaceOptions(additional_metadata=common.Metadata(labels={"team": "a"}))
    said = [
        namespaces.Former(
            "20",
            tenant.Tenant(
                metadata=meta.ObjectMeta(name="oil"),
                spec=tenant.TenantSpec(namespace_options=added),
            ),
        )
    ]
    found = marked(19, team="a", own="x")
    former = namespaces.outdated(found, "prod", said)
    assert namespaces.stale_keys(found, NOTHING, NOTHING, former) == [
        {"op": "test", "path": "/metadata/labels/team", "value": "a"},
        {"op": "remove", "path": "/metadata/labels/team"},
    ]
    # Another's value, and what was written when those words held no more, are somebody's own; so is
    # what nobody can say that of, where versions are no numbers.
    for other in (marked(19, team="b"), marked(21, team="a"), marked("x19", team="a")):
        former = namespaces.outdated(other, "prod", said)
        assert namespaces.stale_keys(other, NOTHING, NOTHING, former) == []


def test_the_record_is_the_tenants_status() -> None:
    managed = common.Metadata(labels={"a": "x"}, annotations={"b": "y"})
    owner = tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil"),
        status=tenant.TenantStatus(
            spaces=[
                tenant.Space(name="prod", uid="1", metadata=managed),
                tenant.Space(name="dev", uid="2"),
            ]
        ),
    )
    assert namespaces.recorded(owner, "prod") == metadata.Metadata({"a": "x"}, {"b": "y"})
    assert namespaces.recorded(owner, "dev") == NOTHING
    assert namespaces.recorded(owner, "gone") == NOTHING


def test_settled_is_what_is_wanted_and_wholly_ours() -> None:
    desired = {"metadata": {"name": "x", "labels": {"a": "x"}}}
    found = namespace(x=["a"])
    found["metadata"]["managedFields"][0] |= {
        "manager": constants.FIELD_MANAGER,
        "operation": "Apply",
    }
    shared = {"metadata": {**found["metadata"]}}
    shared["metadata"]["managedFields"] = [
        *found["metadata"]["managedFields"],
        *namespace(cmd=["a"])["metadata"]["managedFields"],
    ]
    assert takeover.is_settled(desired, found)
    assert not takeover.is_settled(desired, None)
    assert not takeover.is_settled({"metadata": {"labels": {"a": "y"}}}, found)
    assert not takeover.is_settled(desired, namespace(kubectl=["a"]))
    # Capsule's share is still to be taken over.
    assert not takeover.is_settled(desired, shared)
