"""Words that clients and people look for, as the specification quotes them (specs/capsule 5.3-5.7)."""

from __future__ import annotations

import pytest

from tenantry.tenancy import metadata, ownership, reservations
from tenantry.tenancy.admission import content, kinds, namespaces, nodes, storage
from tenantry.tenancy.policy import hostnames, services

ASK = "please, reach out to the system administrators"


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        # 5.3
        (ownership.NOT_OWNED, "can not assign the desired namespace to a non-owned Tenant"),
        (ownership.NO_TENANT, f"You do not have any Tenant assigned: {ASK}"),
        (ownership.PREFIX_FORCED, "The Namespace name must start with"),
        (ownership.PREFIX_UNKNOWN,
         "The Namespace prefix used doesn't match any available Tenant"),
        (ownership.UNASSIGNABLE,
         "Unable to assign namespace to tenant. Please use capsule.clastix.io/tenant label when "
         "creating a namespace"),
        # 5.4
        (ownership.MULTIPLE_REFERENCES,
         "namespace can not have multiple Tenant ownerReferences"),
        (ownership.NOT_PATCHABLE_IN, "namespace can not be patched into a tenant"),
        (ownership.NOT_OWNED_BY_ANY, "namespace is not owned by any tenant"),
        (ownership.PATCH_DENIED, "denied patch request for this namespace"),
        (ownership.NOT_MIGRATABLE, "namespace can not be migrated between tenants"),
        (ownership.NOT_REMOVABLE, "namespace can not remove tenant ownership"),
        # 5.5
        (ownership.ONLY_OWNERS, "only tenant owners can create tenant-owned namespaces"),
        (ownership.FIXED_DURING_TERMINATION,
         "namespace tenant ownership can not change during termination"),
        (ownership.INCONSISTENT,
         "tenant label and ownerReference must both be set consistently or both be absent"),
        (ownership.INCOMPLETE, "namespace tenant ownership is incomplete"),
        (ownership.TERMINATING, "tenant is terminating and does not accept new namespaces"),
        (namespaces.CORDONED, "the selected tenant is cordoned"),
        (reservations.QUOTA_EXCEEDED, f"Cannot exceed Namespace quota: {ASK}"),
        (namespaces.PREFIX, "The namespace doesn't match the tenant prefix"),
        (metadata.LABELS_FAILED, "namespace labels validation failed"),
        (metadata.ANNOTATIONS_FAILED, "namespace annotations validation failed"),
        # 5.6
        (storage.NO_VOLUME, "cannot create a PVC referring to a not yet existing PV"),
        (storage.UNLABELLED.format(name="v", label="l"),
         "PersistentVolume v is missing the Tenant label (l), preventing a potential cross-tenant "
         "mount"),
        (storage.FOREIGN.format(name="v"),
         "Preventing a cross-tenant mount for PersistentVolume v"),
        (hostnames.COLLISION.format(name="a.io"),
         f"hostname a.io is already used across the cluster: {ASK}"),
        (hostnames.WILDCARD.format(tenant="oil"), "Wildcard denied for tenant oil"),
        (services.FORBIDDEN_TYPE.format(type="NodePort"),
         f"NodePort service types are forbidden for the tenant: {ASK}"),
        (nodes.REFUSED.format(part="labels", words=""),
         "Unable to update node as some labels are marked as forbidden by system administrator. "),
        (content.PROMOTION_DISABLED,
         "service account owner promotion is disabled. Contact your system administrators"),
        (content.PROMOTION_DISABLED_HERE,
         "service account owner promotion is disabled for this tenant"),
        (content.MANAGED,
         "Labeling resources as controller managed can only be done by the controller or "
         "administrators"),
        # 5.7
        (kinds.PROTECTED, "tenant is protected and cannot be deleted"),
    ],
)  # fmt: skip
def test_quoted(said: str, quoted: str) -> None:
    assert said.startswith(quoted)
