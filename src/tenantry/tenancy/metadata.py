"""Labels and annotations that a tenant puts on its namespaces (specs/capsule 4.2, 5.5).

Two questions are answered here: what a namespace must carry, and which changes of metadata a
tenant's users may make.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenantry.api.capsule import constants, tenant
from tenantry.core import regex, selectors
from tenantry.tenancy import verdicts
from tenantry.tenancy.policy import compiling, keys, labelling

Strings = Mapping[str, str]

LABELS_FAILED = "namespace labels validation failed"
ANNOTATIONS_FAILED = "namespace annotations validation failed"
NODE_SELECTOR_ENFORCED = (
    f"the {constants.NODE_SELECTOR_ANNOTATION} annotation is enforced via tenant"
)

_TEMPLATE = re.compile(r"\{\{\s*(tenant\.name|namespace)\s*\}\}")

#: Keys that nobody but us writes on a tenant's namespace, whatever the tenant says.
RESERVED_LABELS = (constants.TENANT_LABEL, constants.NAME_LABEL)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Labels and annotations, wanted or found."""

    labels: Strings = field(default_factory=dict)
    annotations: Strings = field(default_factory=dict)


def of(obj: Mapping[str, Any] | None) -> Metadata:
    """Read labels and annotations of an object; an absent object has none."""
    metadata = (obj or {}).get("metadata") or {}
    return Metadata(metadata.get("labels") or {}, metadata.get("annotations") or {})


def node_selector(selector: Strings) -> str:
    """Write a node selector as the PodNodeSelector plugin reads it: sorted ``k=v``, commas."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def desired(owner: tenant.Tenant, name: str, found: Metadata) -> Metadata:
    """Return what the tenant's namespace `name` must carry.

    :param name: empty while the API server has yet to generate it; what depends on it comes later
    :param found: its present metadata, which namespace selectors are matched against
    """
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec = owner.spec
    options = spec.namespace_options
    if spec.cordoned:
        labels[constants.CORDONED_LABEL] = "true"
    for extra in _additional(options, owner, name, found.labels):
        for key, value in extra.labels.items():
            labels.setdefault(key, value)
        for key, value in extra.annotations.items():
            annotations.setdefault(key, value)
    rules = compiling.of_namespace(owner, name, found.labels, found.annotations)
    kept = labelling.kept(rules, compiling.NAMESPACE)
    labels.update(kept["labels"])
    annotations.update(kept["annotations"])
    annotations.update(_hints(owner))
    if spec.node_selector:
        annotations[constants.NODE_SELECTOR_ANNOTATION] = node_selector(spec.node_selector)
    labels[constants.TENANT_LABEL] = owner.metadata.name
    if name:
        labels[constants.NAME_LABEL] = name
    return Metadata(labels, annotations)


#: On Tenants of earlier releases, told to their namespaces as they stand.
_COPIED = (
    constants.FORBIDDEN_LABELS_ANNOTATION,
    constants.FORBIDDEN_LABELS_REGEX_ANNOTATION,
    constants.FORBIDDEN_ANNOTATIONS_ANNOTATION,
    constants.FORBIDDEN_ANNOTATIONS_REGEX_ANNOTATION,
)


def _hints(owner: tenant.Tenant) -> Iterator[tuple[str, str]]:
    """Yield what people and tools look up on a namespace: the classes and registries it may use."""
    spec = owner.spec
    ingresses = spec.ingress_options.allowed_classes if spec.ingress_options is not None else None
    for listed, names, expression in (
        (
            ingresses,
            constants.INGRESS_CLASSES_ANNOTATION,
            constants.INGRESS_CLASSES_REGEX_ANNOTATION,
        ),
        (
            spec.storage_classes,
            constants.STORAGE_CLASSES_ANNOTATION,
            constants.STORAGE_CLASSES_REGEX_ANNOTATION,
        ),
        (
            spec.container_registries,
            constants.REGISTRIES_ANNOTATION,
            constants.REGISTRIES_REGEX_ANNOTATION,
        ),
    ):
        if listed is not None and listed.allowed:
            yield names, ",".join(listed.allowed)
        if listed is not None and listed.allowed_regex:
            yield expression, listed.allowed_regex
    for key in _COPIED:
        if key in owner.metadata.annotations:
            yield key, owner.metadata.annotations[key]


def _additional(
    options: tenant.NamespaceOptions | None, owner: tenant.Tenant, name: str, labels: Strings
) -> Iterator[Metadata]:
    """Yield what the two deprecated fields add; an earlier key wins."""
    if options is None:
        return
    if options.additional_metadata is not None:
        yield Metadata(options.additional_metadata.labels, options.additional_metadata.annotations)
    for entry in options.additional_metadata_list:
        selector = entry.namespace_selector
        if selector is None or selectors.matches(selector.plain(), labels):
            yield Metadata(
                dict(_filled(entry.labels, owner.metadata.name, name)),
                dict(_filled(entry.annotations, owner.metadata.name, name)),
            )


def _filled(values: Strings, owner: str, name: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if name or "namespace" not in _TEMPLATE.findall(value):
            yield key, rendered(value, owner, name)


def rendered(value: str, owner: str, name: str) -> str:
    """Fill ``{{tenant.name}}`` and ``{{namespace}}``, the only two variables of these fields."""
    words = {"tenant.name": owner, "namespace": name}
    return _TEMPLATE.sub(lambda match: words[match[1]], value)


def check_node_selector(
    owner: tenant.Tenant, old: Metadata, new: Metadata
) -> verdicts.Denial | None:
    """Refuse to change the node selector to anything but the tenant's own.

    PodNodeSelector obeys this annotation, so also for a tenant without a selector only the
    platform may say where its pods go. What is already stored passes: the controller repairs it,
    and the system must be able to touch such a namespace meanwhile.
    """
    key = constants.NODE_SELECTOR_ANNOTATION
    if new.annotations.get(key) == old.annotations.get(key):
        return None
    if not owner.spec.node_selector:
        return _node_selector_denial("cannot be updated")
    if key not in new.annotations:
        return _node_selector_denial("cannot be removed")
    if new.annotations[key] != node_selector(owner.spec.node_selector):
        return _node_selector_denial("cannot be updated")
    return None


def check_forbidden(
    owner: tenant.Tenant, name: str, old: Metadata, new: Metadata
) -> verdicts.Denial | None:
    """Refuse keys that owners may not set, judged on what they added or changed.

    A value that the tenant itself would set is always fine.
    """
    options = owner.spec.namespace_options
    if options is None:
        return None
    own = desired(owner, name, new)
    for kind, failed, rule, before, after, ours in (
        ("annotation", ANNOTATIONS_FAILED, options.forbidden_annotations, old.annotations, new.annotations,
         own.annotations),
        ("label", LABELS_FAILED, options.forbidden_labels, old.labels, new.labels, own.labels),
    ):  # fmt: skip
        if rule is None:
            continue
        for key in keys.added(before, after):
            if key in RESERVED_LABELS or ours.get(key) == after[key]:
                continue
            if keys.is_forbidden(rule, key):
                return verdicts.Denial(
                    f"{failed}: {kind} {key} is forbidden for the current Tenant. {keys.words(rule)}",
                )
    return None


def _node_selector_denial(why: str) -> verdicts.Denial:
    return verdicts.Denial(
        f"{NODE_SELECTOR_ENFORCED}, {why}",
    )


def check_required(
    owner: tenant.Tenant, old: Metadata | None, new: Metadata
) -> verdicts.Denial | None:
    """Refuse a namespace that lacks metadata its tenant requires.

    :param old: the stored metadata of an update, where only keys that changed are judged
    """
    options = owner.spec.namespace_options
    required = options.required_metadata if options is not None else None
    if required is None:
        return None
    for kind, rules, before, after in (
        ("label", required.labels, old.labels if old else {}, new.labels),
        ("annotation", required.annotations, old.annotations if old else {}, new.annotations),
    ):
        for key, expression in sorted(rules.items()):
            if old is not None and before.get(key) == after.get(key):
                continue
            if key not in after:
                return verdicts.Denial(f'required {kind} "{key}" not present')
            # An empty expression matches any value.
            if expression and not regex.found(expression, after[key]):
                return verdicts.Denial(
                    f'required {kind} "{key}" value "{after[key]}" does not match '
                    f'regex "{expression}"'
                )
    return None
