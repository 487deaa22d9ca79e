"""What a namespace says about its tenant: read here, and nowhere else.

A namespace belongs to a tenant when its label and its only reference to a Tenant name the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry.api import meta
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a namespace object says about its tenant: the label, and all Tenant references."""

    label: str | None
    references: tuple[tuple[str, str], ...]
    """(name, uid) of each ownerReference to a Tenant"""

    @property
    def absent(self) -> bool:
        return self.label is None and not self.references

    @property
    def complete(self) -> bool:
        """Tell whether label and one reference name the same tenant (its uid is not judged)."""
        return len(self.references) == 1 and self.references[0][0] == self.label

    @property
    def tenant(self) -> str | None:
        """Return the tenant that label and reference agree on; None where they do not."""
        return self.label if self.complete else None

    @property
    def mentioned(self) -> frozenset[str]:
        """Return every tenant that label or references name."""
        names = {name for name, _ in self.references}
        return frozenset(names | ({self.label} if self.label is not None else set()))

    @property
    def uid(self) -> str:
        return self.references[0][1] if self.references else ""


def of(namespace: Mapping[str, Any] | None) -> Assignment:
    """Read the assignment from a namespace as somebody sent it; an absent object has none."""
    metadata = (namespace or {}).get("metadata") or {}
    label = (metadata.get("labels") or {}).get(constants.TENANT_LABEL)
    references = tuple(
        (str(reference.get("name", "")), str(reference.get("uid", "")))
        for reference in metadata.get("ownerReferences") or ()
        if is_reference(reference)
    )
    return Assignment(label, references)


def stored(metadata: meta.ObjectMeta) -> Assignment:
    """Read the assignment from the metadata of a namespace as a watch tells it."""
    references = tuple(
        (reference.name, reference.uid)
        for reference in metadata.owner_references
        if _is_tenant(reference.api_version, reference.kind)
    )
    return Assignment(metadata.labels.get(constants.TENANT_LABEL), references)


def is_reference(reference: Mapping[str, Any]) -> bool:
    """Tell whether an ownerReference points at a Tenant, whatever version it names."""
    return _is_tenant(str(reference.get("apiVersion", "")), str(reference.get("kind", "")))


def _is_tenant(api_version: str, kind: str) -> bool:
    return kind == capsule.TENANTS.kind and api_version.partition("/")[0] == constants.GROUP
