"""Whether the rules of a Tenant can mean anything (specs/capsule 5.9).

What depends on a namespace, a template, is only checked for its form: it is filled later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tenantry.api.capsule import common, rules
from tenantry.core import errors, quantity, regex
from tenantry.core.templates import engine as templates
from tenantry.tenancy.policy import engine, labelling, pods, services

#: Which parts of a pod each field of `workloads` can be about.
_TARGETS = {
    "registries": pods.IMAGE_TARGETS,
    "schedulers": (pods.POD,),
    "qosClasses": (pods.POD,),
    "tolerations": (pods.POD,),
    "nodeSelectors": (pods.POD,),
    "resources": (pods.POD, pods.CONTAINERS, pods.INIT),
}
_QOS = ("Guaranteed", "Burstable", "BestEffort")
_PULL = ("Always", "IfNotPresent", "Never")
_RATIO = ("cpu", "memory", "ephemeral-storage")
#: What is meant where a rule names no group. No release of Kubernetes adds to it.
_CORE = frozenset(
    [
        "Binding",
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ]
)


#: Each review of a pod looks at each rule: with so many that takes some milliseconds.
MOST_RULES = 500
MOST_STATEMENTS = 2_000
#: Characters of templates, and instructions of regular expressions. Each takes some tenths of a
#: second to compile, during which all other reviews wait.
MOST_TEMPLATES = 128 << 10
MOST_INSTRUCTIONS = 500_000


def problems(found: Sequence[rules.RuleBody], prefix: str) -> list[str]:
    """Return what is wrong with rules.

    :param prefix: path of the list, such as ``spec.rules``
    """
    if len(found) > MOST_RULES:
        return [f"{prefix}: Too many: {len(found)}: must have at most {MOST_RULES} items"]
    statements = sum(_statements(rule) for rule in found)
    if statements > MOST_STATEMENTS:
        return [
            f"{prefix}: Too many: {statements}: must hold at most {MOST_STATEMENTS} expressions, "
            "keys of metadata and resources together"
        ]
    large = [f"{prefix}: {problem}" for problem in _sizes(found)]
    if large:
        return large
    return [
        problem for index, rule in enumerate(found) for problem in _rule(rule, f"{prefix}[{index}]")
    ]


def _sizes(found: Sequence[rules.RuleBody]) -> Iterator[str]:
    """Say what would take too long to compile, before all of it is compiled."""
    length = size = 0
    for part in _parts(found):
        if isinstance(part, str):
            length += len(part) if templates.is_template(part) else 0
        elif isinstance(part, common.ExpressionMatch) and not templates.is_template(part.exp):
            size += _instructions(part.exp)
        if length > MOST_TEMPLATES:
            yield f"Too long: templates must have at most {MOST_TEMPLATES} characters together"
            return
        if size > MOST_INSTRUCTIONS:
            yield (
                f"Too large: expressions must compile to at most {MOST_INSTRUCTIONS} instructions "
                f"together (one that cannot be read counts as {regex.LARGEST}): repeat less"
            )
            return


def unreadable(found: Sequence[rules.RuleBody], prefix: str) -> Iterator[str]:
    """Say which rules hold an expression that cannot be read."""
    for index, rule in enumerate(found):
        for part in _parts(rule.enforce):
            if isinstance(part, common.ExpressionMatch) and part.exp:
                yield from _checked(part.exp, f"{prefix}[{index}]", regex.compile)


def _parts(found: object) -> Iterator[object]:
    """Yield everything that rules are made of."""
    yield found
    if isinstance(found, msgspec.Struct):
        found = list(msgspec.structs.asdict(found).values())
    elif isinstance(found, Mapping):
        found = [*found.keys(), *found.values()]
    if isinstance(found, Sequence) and not isinstance(found, str):
        for part in found:
            yield from _parts(part)


def _instructions(expression: str) -> int:
    try:
        return int(regex.compile(expression, "").programsize)
    except errors.InvalidValueError:
        return regex.LARGEST


def _statements(rule: rules.RuleBody) -> int:
    """Count what a rule compares with, one by one."""
    enforce = rule.enforce
    if enforce is None:
        return 0
    work, net, ingress = enforce.workloads, enforce.services, enforce.ingress
    count = sum(
        1 + len(entry.values)
        for one in enforce.metadata
        for entry in (*one.labels.values(), *one.annotations.values())
    )
    if work is not None:
        count += len(work.registries) + len(work.schedulers)
        count += len(work.tolerations) + len(work.node_selectors)
        if work.resources is not None:
            count += len(work.resources.requests) + len(work.resources.limits)
    if net is not None:
        count += len(net.load_balancers.cidrs) if net.load_balancers else 0
        count += len(net.external_names.hostnames) if net.external_names else 0
        count += len(net.node_ports.ports) if net.node_ports else 0
    return count + (len(ingress.hostnames) if ingress is not None else 0)


def _rule(rule: rules.RuleBody, field: str) -> Iterator[str]:
    for index, entry in enumerate(rule.audience):
        where = f"{field}.audience[{index}].name"
        if entry.kind == "Custom" and entry.name not in engine.CUSTOM:
            yield _one_of(where, entry.name, engine.CUSTOM)
        elif not entry.name:
            yield f'{where}: Invalid value: "": must not be empty'
        else:
            yield from _text(entry.name, where)
    enforce = rule.enforce
    if enforce is None:
        return
    where = f"{field}.enforce"
    if enforce.workloads is not None:
        yield from _workloads(enforce.workloads, f"{where}.workloads")
    if enforce.services is not None:
        yield from _services(enforce.services, f"{where}.services")
    if enforce.ingress is not None:
        for part, values in (
            ("types", enforce.ingress.types), ("hostnames", enforce.ingress.hostnames),
        ):  # fmt: skip
            if not values:
                yield f"{where}.ingress.{part}: Required value: at least one is needed"
        yield from _expressions(enforce.ingress.hostnames, f"{where}.ingress.hostnames")
    for index, metadata in enumerate(enforce.metadata):
        yield from _metadata(metadata, f"{where}.metadata[{index}]")


def _workloads(found: rules.Workloads, field: str) -> Iterator[str]:
    set_fields = {
        "registries": bool(found.registries),
        "schedulers": bool(found.schedulers),
        "qosClasses": bool(found.qos_classes),
        "tolerations": bool(found.tolerations),
        "nodeSelectors": bool(found.node_selectors),
        "resources": found.resources is not None,
    }
    for name, is_set in set_fields.items():
        if is_set and found.targets and not set(found.targets) & set(_TARGETS[name]):
            yield (
                f"{field}.targets: Invalid value: {', '.join(found.targets)}: {name} can only be "
                f"about {', '.join(_TARGETS[name])}"
            )
    yield from _expressions(found.registries, f"{field}.registries")
    for index, registry in enumerate(found.registries):
        for policy in registry.policy:
            if policy not in _PULL and not templates.is_template(policy):
                yield _one_of(f"{field}.registries[{index}].policy", policy, _PULL)
    yield from _expressions(found.schedulers, f"{field}.schedulers")
    yield from _expressions(found.tolerations, f"{field}.tolerations")
    yield from _expressions(found.node_selectors, f"{field}.nodeSelectors")
    for index, name in enumerate(found.qos_classes):
        if name not in _QOS and not templates.is_template(name):
            yield _one_of(f"{field}.qosClasses[{index}]", name, _QOS)
    if found.resources is not None:
        yield from _resources(found.resources, f"{field}.resources")


def _resources(found: rules.WorkloadResources, field: str) -> Iterator[str]:
    parts: tuple[tuple[str, Mapping[str, rules.RequestRule | rules.LimitRule]], ...] = (
        ("requests", found.requests), ("limits", found.limits),
    )  # fmt: skip
    for part, entries in parts:
        for name, entry in sorted(entries.items()):
            where = f"{field}.{part}[{name}]"
            needed = entry.policy in {"Default", "Ratio"}
            if needed != (entry.value is not None):
                yield (
                    f"{where}.value: Invalid value: {errors.shown(entry.value)}: must be set with "
                    "policy Default or Ratio, and only then"
                )
            elif entry.value is not None:
                yield from _amount(entry.value, entry.policy, name, where)


def _amount(value: object, policy: str, name: str, where: str) -> Iterator[str]:
    if templates.is_template(str(value)):
        yield from _text(str(value), f"{where}.value")
        return
    try:
        amount = quantity.parse(str(value), f"{where}.value")
    except errors.InvalidValueError as problem:
        yield str(problem)
        return
    if policy == "Ratio" and name not in _RATIO:
        yield f"{where}.policy: Invalid value: Ratio: is only for {', '.join(_RATIO)}"
    if policy == "Ratio" and amount < quantity.parse("1"):
        yield f"{where}.value: Invalid value: {errors.shown(value)}: a ratio must be at least 1"
    if amount < quantity.parse("0"):
        yield f"{where}.value: Invalid value: {errors.shown(value)}: must not be negative"


def _services(found: rules.Services, field: str) -> Iterator[str]:
    for index, cidr in enumerate(found.load_balancers.cidrs if found.load_balancers else ()):
        where = f"{field}.loadBalancers.cidrs[{index}]"
        yield from _checked(cidr, where, services.network)
    if found.external_names is not None:
        names = found.external_names.hostnames
        yield from _expressions(names, f"{field}.externalNames.hostnames")
    for index, ports in enumerate(found.node_ports.ports if found.node_ports else ()):
        if ports.from_ > ports.to:
            yield (
                f"{field}.nodePorts.ports[{index}]: Invalid value: {ports.from_}-{ports.to}: "
                "from must not be above to"
            )


def _metadata(found: rules.MetadataRule, field: str) -> Iterator[str]:
    try:
        labelling.kinds_of(found, field)
    except errors.InvalidValueError as problem:
        yield str(problem)
    if all(group in {"", "v1"} for group in found.api_groups):
        for index, kind in enumerate(found.kinds):
            if "*" not in kind and kind not in _CORE:
                yield (
                    f"{field}.kinds[{index}]: Invalid value: {errors.shown(kind)}: is no kind of v1 "
                    "that namespaces hold; apiGroups names the group of others, such as apps/v1"
                )
    for part, entries in (("labels", found.labels), ("annotations", found.annotations)):
        for key, entry in sorted(entries.items()):
            where = f"{field}.{part}[{key}]"
            try:
                labelling.key_test(key, where)
            except errors.InvalidValueError as problem:
                yield str(problem)
            yield from _expressions(entry.values, f"{where}.values")
            written = [("default", entry.default), ("managed", entry.managed)]
            for name, value in written:
                if value is None:
                    continue
                yield from _text(value, f"{where}.{name}")
                if not labelling.is_concrete(key):
                    yield f"{where}.{name}: Invalid value: {errors.shown(value)}: needs one key, not a pattern"
            if entry.managed is not None and any("*" in kind for kind in found.kinds):
                yield (
                    f"{where}.managed: Invalid value: {errors.shown(entry.managed)}: needs concrete "
                    "kinds, not patterns"
                )


def _expressions(found: Sequence[common.ExpressionMatch], field: str) -> Iterator[str]:
    for index, one in enumerate(found):
        where = f"{field}[{index}]"
        if not one.exact and not one.exp:
            yield f"{where}: Required value: at least one of exact and exp must be set"
        for number, value in enumerate(one.exact):
            yield from _text(value, f"{where}.exact[{number}]")
        yield from _checked(one.exp, f"{where}.exp", regex.compile)


def _checked(text: str, field: str, check: Callable[[str, str], object]) -> Iterator[str]:
    """Check a text that means something by itself, unless a template makes it."""
    if templates.is_template(text):
        yield from _text(text, field)
        return
    try:
        check(text, field)
    except errors.InvalidValueError as problem:
        yield str(problem)


def _text(text: str, field: str) -> Iterator[str]:
    if not templates.is_template(text):
        return
    try:
        templates.compile(text, field)
    except errors.InvalidValueError as problem:
        yield str(problem)


def _one_of(field: str, value: str, accepted: Sequence[str]) -> str:
    return (
        f"{field}: Unsupported value: {errors.shown(value)}: must be one of {', '.join(accepted)}"
    )
