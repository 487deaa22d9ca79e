"""Which classes a review speaks of, so that they are at hand when it is judged; pure."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.api import resources
from tenantry.runtime import admission
from tenantry.tenancy.admission import ingresses, storage
from tenantry.tenancy.policy import classes, compiling, devices

#: Kinds whose classes must exist to be used.
EXISTING = (classes.DEVICE, classes.GATEWAY)


def wanted(review: admission.Review, policy: compiling.Policy) -> frozenset[tuple[str, str]]:
    """Return the classes (kind, name) without which the policy cannot be applied.

    A name that is listed needs no class; its labels, what the tenant's default carries, and
    whether it is the cluster's own default are said by the class.
    """
    return frozenset(
        (kind, name)
        for kind, name in _named(review, policy)
        if name
        and (
            classes.of_kind(policy.classes, kind).selects
            or classes.of_kind(policy.classes, kind).default
            or (kind in EXISTING and classes.of_kind(policy.classes, kind).allowed is not None)
        )
    )


def _named(review: admission.Review, policy: compiling.Policy) -> Iterator[tuple[str, str]]:
    spec = (review.object or {}).get("spec") or {}
    if review.is_about(resources.PODS):
        if review.operation != "CREATE":
            return
        for kind, field in (
            (classes.PRIORITY, "priorityClassName"),
            (classes.RUNTIME, "runtimeClassName"),
        ):
            yield kind, spec.get(field) or ""
            yield kind, classes.of_kind(policy.classes, kind).default
    elif storage.is_claim(review):
        if review.operation == "CREATE":
            yield classes.STORAGE, spec.get("storageClassName") or ""
    elif ingresses.is_ingress(review):
        yield classes.INGRESS, spec.get("ingressClassName") or ""
        yield (
            classes.INGRESS,
            ingresses.ingress_class({"metadata": (review.object or {}).get("metadata")}),
        )
    elif ingresses.is_gateway(review):
        yield classes.GATEWAY, spec.get("gatewayClassName") or ""
    elif review.group == devices.GROUP and review.resource in devices.PLURALS:
        for _, name in devices.named(review.object or {}):
            yield classes.DEVICE, name


def volume(review: admission.Review) -> str:
    """Return the PersistentVolume that a claim asks for now; "" for none."""
    if not storage.is_claim(review):
        return ""
    before = ((review.old or {}).get("spec") or {}).get("volumeName")
    return "" if before else ((review.object or {}).get("spec") or {}).get("volumeName") or ""
