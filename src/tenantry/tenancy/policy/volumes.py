"""PersistentVolumes, as far as tenants are concerned: whose one is, and for which claim."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import constants


class Claim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The claim that a volume is bound to, or kept for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class Volume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is kept of a PersistentVolume; `tenant` is "" where no label names one."""

    name: str
    tenant: str = ""
    claim: Claim | None = None
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    claim_ref: Claim | None = None


class _Wire(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_WIRE = msgspec.json.Decoder(_Wire)


def view(raw: bytes) -> Volume:
    """Project one volume."""
    found = _WIRE.decode(raw)
    return Volume(
        name=found.metadata.name,
        tenant=found.metadata.labels.get(constants.TENANT_LABEL, ""),
        claim=found.spec.claim_ref,
        resource_version=found.metadata.resource_version,
    )


def disputed(found: Volume, tenant: str) -> bool:
    """Tell whether a volume that is another tenant's was only proposed for a claim.

    Whoever matches volumes and claims knows nothing of tenants, and writes the volume first. An
    administrator who keeps a volume for a claim names it without its uid.
    """
    return bool(found.claim is not None and found.claim.uid and found.tenant not in {"", tenant})


def repair(found: Volume, tenant: str) -> dict[str, Any] | None:
    """Return the merge patch that makes the label name the tenant of the claim; None for nothing.

    :param tenant: of the namespace that the claim is in
    """
    if found.claim is None or tenant == found.tenant:
        return None
    return {
        "metadata": {
            "resourceVersion": found.resource_version,
            "labels": {constants.TENANT_LABEL: tenant},
        }
    }
