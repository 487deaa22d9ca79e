"""Metadata of what the controller makes for a tenant; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule

Object = dict[str, Any]


def metadata(
    owner: tenant.Tenant, name: str, namespace: str, labels: Mapping[str, str] | None = None
) -> Object:
    """Return the metadata of an object that goes with its tenant and is found by its labels.

    :param labels: labels beside those of everything that is managed
    """
    return {
        "name": name,
        "namespace": namespace,
        "labels": {
            **(labels or {}),
            constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER,
            constants.MANAGED_TENANT_LABEL: owner.metadata.name,
        },
        "ownerReferences": [
            {
                "apiVersion": constants.API_VERSION,
                "kind": capsule.TENANTS.kind,
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
