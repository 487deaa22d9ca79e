"""Tenants and reviews for tests of policy."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api.capsule import configuration, tenant
from tenantry.directory import identity
from tenantry.directory import state as directory
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.policy import compiling, surroundings

Object = dict[str, Any]


def a_tenant(**spec: Any) -> tenant.Tenant:
    plain = {
        "metadata": {"name": "oil", "uid": "u1", "generation": 1, "labels": {"tier": "gold"}},
        "spec": spec,
    }
    return msgspec.convert(plain, tenant.Tenant, strict=False)


def a_namespace(**labels: str) -> directory.NamespaceView:
    return directory.NamespaceView(
        name="oil-prod",
        uid="n1",
        resource_version="1",
        labels=labels,
        annotations={},
        tenant="oil",
        tenant_uid="u1",
        terminating=False,
        raw=b"{}",
    )


def policy(labels: dict[str, str] | None = None, **spec: Any) -> compiling.Policy:
    return compiling.Book().of(a_tenant(**spec), a_namespace(**(labels or {})))


def known(
    found: compiling.Policy | None,
    *,
    user: str = "alice",
    groups: tuple[str, ...] = (),
    klass: identity.Class = identity.Class.CAPSULE,
    around: surroundings.Surroundings = surroundings.NOTHING,
) -> evidence.Evidence:
    return evidence.Evidence(
        requester=identity.Requester(user, frozenset(groups)),
        requester_class=klass,
        config=configuration.CapsuleConfigurationSpec(),
        tenants={},
        owners_of=lambda _: (),
        tenant_name="oil",
        policy=found,
        around=around,
    )


def a_review(
    resource: str, obj: Object, old: Object | None = None, **more: Any
) -> admission.Review:
    return admission.Review(
        uid="r1",
        operation="CREATE" if old is None else "UPDATE",
        resource=resource,
        namespace="oil-prod",
        name="x",
        object=obj,
        old=old,
        **more,
    )


def message(decision: admission.Decision) -> str:
    return decision.message if isinstance(decision, admission.Deny) else ""
