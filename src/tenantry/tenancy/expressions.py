"""The regular expressions of a Tenant, all in one place (specs/capsule 5.7)."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.api.capsule import tenant
from tenantry.core import errors, regex
from tenantry.tenancy.policy import validating


def of(spec: tenant.TenantSpec) -> Iterator[tuple[str, str]]:
    """Yield every regular expression of a specification with its path."""
    for field, allowed in (
        ("storageClasses", spec.storage_classes),
        ("runtimeClasses", spec.runtime_classes),
        ("priorityClasses", spec.priority_classes),
        ("deviceClasses", spec.device_classes),
        ("gatewayOptions.allowedClasses",
         spec.gateway_options and spec.gateway_options.allowed_classes),
        ("ingressOptions.allowedClasses",
         spec.ingress_options and spec.ingress_options.allowed_classes),
        ("ingressOptions.allowedHostnames",
         spec.ingress_options and spec.ingress_options.allowed_hostnames),
        ("containerRegistries", spec.container_registries),
    ):  # fmt: skip
        if allowed and allowed.allowed_regex:
            yield f"spec.{field}.allowedRegex", allowed.allowed_regex
    for prefix, options in (
        ("namespaceOptions", spec.namespace_options),
        ("serviceOptions", spec.service_options),
    ):
        if options is None:
            continue
        for field, rule in (
            ("forbiddenLabels", options.forbidden_labels),
            ("forbiddenAnnotations", options.forbidden_annotations),
        ):
            if rule is not None and rule.denied_regex:
                yield f"spec.{prefix}.{field}.deniedRegex", rule.denied_regex
    required = spec.namespace_options and spec.namespace_options.required_metadata
    if required:
        for kind, rules in (("labels", required.labels), ("annotations", required.annotations)):
            for key, expression in sorted((rules or {}).items()):
                yield f"spec.namespaceOptions.requiredMetadata.{kind}[{key}]", expression


def unreadable(spec: tenant.TenantSpec) -> list[str]:
    """Return what is wrong with expressions that were stored before they were checked.

    What they were to allow is refused, and so is what they were to deny.
    """
    return [
        *(problem for field, one in of(spec) for problem in problems(one, field)),
        *validating.unreadable(spec.rules, "spec.rules"),
    ]


def problems(expression: str, field: str) -> list[str]:
    """Return what is wrong with one; clients of the original look for these words."""
    try:
        regex.compile(expression, field)
    except errors.InvalidValueError as problem:
        owner, _, last = field.rpartition(".")
        kind = owner.rpartition(".")[2]
        if last == "deniedRegex":
            kind = kind.removeprefix("forbidden").lower()
            return [
                f"unable to compile regex {errors.shown(expression)} for forbidden {kind}: {problem}"
            ]
        what = f"{_CLASSES.get(owner, kind)} {last}" if last == "allowedRegex" else last
        return [f"unable to compile {what}: {problem}"]
    return []


#: Where a list of classes does not say itself of what.
_CLASSES = {
    "spec.gatewayOptions.allowedClasses": "gatewayClasses",
    "spec.ingressOptions.allowedClasses": "ingressClasses",
}
