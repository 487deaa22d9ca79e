"""The RuleStatus of a namespace: the tenant's rules that hold there (specs/capsule 1.11, 4.6).

A projection for people and for programs that know Capsule. Admission rests on the Tenant itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import errors
from tenantry.directory import state as directory
from tenantry.tenancy import managed, markings
from tenantry.tenancy.policy import compiling, templating

Object = dict[str, Any]

#: Fields of a rule that say where it holds and what else it gives.
_LEFT_OUT = frozenset({"namespaceSelector", "permissions", "quota"})


@dataclass(frozen=True, slots=True)
class Filled:
    """The rules that hold in a namespace.

    :param problem: why a rule could not be filled; it is left out here, and refuses in admission
    """

    rules: list[Object]
    problem: str = ""


def filled(owner: tenant.Tenant, spec: Mapping[str, Any], view: directory.NamespaceView) -> Filled:
    """Return the rules that hold in a namespace, in their order, with their templates filled.

    :param spec: the Tenant's specification as stored, so that nothing it says is lost
    """
    render = templating.renderer(owner, view)
    stored = spec.get("rules") or []
    found, problem = [], ""
    for index, _ in compiling.selecting(owner, view.labels):
        body = {key: value for key, value in stored[index].items() if key not in _LEFT_OUT}
        try:
            found.append(_filled(body, render))
        except errors.TenantryError as error:
            problem = problem or f"spec.rules[{index}]: {error}"
    return Filled(found, problem)


def problem(owner: tenant.Tenant, view: directory.NamespaceView) -> str:
    """Say why a rule that selects a namespace cannot be filled there; "" when all can."""
    render = templating.renderer(owner, view)
    for index, rule in compiling.selecting(owner, view.labels):
        if not templating.is_templated(rule):
            continue
        try:
            _filled(msgspec.to_builtins((rule.audience, rule.enforce)), render)
        except errors.TenantryError as error:
            return f"spec.rules[{index}]: {error}"
    return ""


def _filled(value: Any, render: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return render(value)
    if isinstance(value, (list, tuple)):
        return [_filled(item, render) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, render) for key, item in value.items()}
    return value


def is_needed(owner: tenant.Tenant) -> bool:
    """Tell whether a tenant says anything that is kept or shown by namespace."""
    spec = owner.spec
    return (
        any(rule.enforce is not None for rule in spec.rules)
        or (spec.pod_options is not None and spec.pod_options.additional_metadata is not None)
        or (
            spec.service_options is not None
            and spec.service_options.additional_metadata is not None
        )
    )


def desired(
    owner: tenant.Tenant, namespace: str, rules: list[Object], record: markings.Record
) -> Object:
    """Return the RuleStatus to keep, without its status.

    :param record: what objects carry or may still carry; it is written before any is touched
    """
    metadata = managed.metadata(
        owner,
        constants.RULE_STATUS_NAME,
        namespace,
        {constants.CAPSULE_NAME_LABEL: constants.RULE_STATUS_NAME},
    )
    if record.kept:
        metadata["annotations"] = {constants.MARKS_ANNOTATION: markings.written(record)}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": capsule.RULE_STATUSES.kind,
        "metadata": metadata,
        "spec": rules,
    }


def manager(namespace: str) -> str:
    """Return the field manager under which a namespace's objects get what is kept on them."""
    found = f"{namespace}/{constants.RULE_STATUS_NAME}".encode()
    return constants.RULE_STATUS_MANAGER_PREFIX + hashlib.sha256(found).hexdigest()[:8]


def record_of(observed: Mapping[str, Any] | None) -> markings.Record:
    """Return what a stored RuleStatus says that objects may carry; Capsule's own says it by rule."""
    if observed is None:
        return markings.Record()
    metadata = observed.get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(constants.MARKS_ANNOTATION)
    if text is not None:
        return markings.read(text)
    found = markings.recorded((observed.get("status") or {}).get("rules") or ())
    return markings.Record((found,) if found else ())
