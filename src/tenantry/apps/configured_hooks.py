"""The webhook configurations that a CapsuleConfiguration defines (specs/capsule 5.1); pure.

They add to the fixed ones of `hooks` and never take their place: what security rests on cannot be
configured away. Each definition is judged alone, so that one that is broken costs only itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import configuration, constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import configured_clients as clients
from tenantry.apps import hooks, match_conditions
from tenantry.core import errors, names, selectors
from tenantry.directory import identity

Object = dict[str, Any]

#: What Capsule answers at paths where there is nothing to answer here yet.
LEFT_OUT = frozenset(
    (
        "/generic/customresources", "/generic/replications", "/generic/metadata",
        "/resourcepools/validating", "/resourcepools/claim/validating",
        "/resourcepools/mutating", "/resourcepools/claim/mutating",
        "/custom-quotas/namespaced/validating", "/custom-quotas/cluster/validating",
        "/custom-quotas/calculations", "/global-resource-quotas/calculations",
    )
)  # fmt: skip

#: The API server's limit, and what of it is left besides our own two.
_CONDITIONS = 64
MOST_CONDITIONS = _CONDITIONS - 2
#: Above these a condition on the requester costs more than the question it saves.
MOST_SUBJECTS = 256
_LONGEST = 16_384

CONDITION = "not-the-cluster-itself"
REQUESTERS = "requesters"


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook as it is to be registered, and the field that defines it."""

    field: str
    body: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one side comes to."""

    name: str
    hooks: Sequence[Hook]
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    problems: Sequence[str]
    """what is wrong, each with its field"""
    notes: Sequence[str]
    """what is right but has no effect, or costs more than it seems"""


def make(
    side: clients.Side,
    spec: configuration.CapsuleConfigurationSpec,
    *,
    namespace: str,
    controllers: Collection[str],
    roster: identity.Roster,
) -> Made:
    """Build the webhooks of one side.

    :param namespace: the platform's own
    :param controllers: user names of the platform itself
    :param roster: who the options of a webhook are about
    """
    said = side.of(spec)
    name = side.name(spec)
    if said is None:
        return Made(name=name, hooks=(), problems=(), notes=())
    where = f"spec.admission.{side.field}"
    problems = [f"{where}.{problem}" for problem in clients.client_problems(said.client)]
    notes: list[str] = []
    usable = not clients.address_problems(said.client)
    for unfit, why in (
        (not names.is_dns_subdomain(name), "must be a DNS name"),
        (name == hooks.NAME, "is the name of Tenantry's own webhooks"),
    ):
        if unfit:
            usable = False
            problems.append(clients.invalid(f"{where}.name", name, why))
    labels, wrong_labels = _metadata(said.labels, f"{where}.labels", values=True)
    annotations, wrong_keys = _metadata(said.annotations, f"{where}.annotations", values=False)
    problems += [*wrong_labels, *wrong_keys]
    made: list[Hook] = []
    seen: set[str] = set()
    for index, hook in enumerate(said.webhooks):
        field = f"{where}.webhooks[{index}]"
        if hook.path in LEFT_OUT:
            notes.append(f"{field}.path: {hook.path} is not answered here, so it is left out")
            continue
        wrong = list(_hook_problems(side, hook, field))
        if hook.name in seen:
            wrong.append(f"{field}.name: Duplicate value: {errors.shown(hook.name)}")
        seen.add(hook.name)
        problems += wrong
        if wrong or not usable:
            continue
        system = _system(namespace, controllers)
        made.append(Hook(field, _body(side, hook, said.client, system, roster)))
    return Made(
        name=name,
        hooks=sorted(made, key=lambda hook: str(hook.body["name"])),
        labels=labels,
        annotations=annotations,
        problems=problems,
        notes=notes,
    )


def warnings(spec: configuration.CapsuleConfigurationSpec) -> list[str]:
    """Return what a writer should know of webhooks that are asked besides the fixed ones."""
    count = sum(
        hook.path in side.paths
        for side in clients.SIDES
        if (said := side.of(spec)) is not None
        for hook in said.webhooks
    )
    if not count:
        return []
    return [
        f"spec.admission: {count} of its webhooks are answered like those of the configuration "
        f"{hooks.NAME}, which are always registered: requests that match both are asked about twice"
    ]


def object_of(
    side: clients.Side,
    made: Made,
    owner: configuration.CapsuleConfiguration,
    bundles: Mapping[str, str],
) -> Object:
    """Return the whole object.

    :param bundles: name of a webhook -> its caBundle; one that is absent is somebody else's
    """
    metadata: Object = {
        "name": made.name,
        "labels": {**made.labels, constants.CREATED_BY_LABEL: constants.CREATED_BY_CONTROLLER},
        "ownerReferences": [
            {
                "apiVersion": constants.API_VERSION,
                "kind": capsule.CONFIGURATIONS.kind,
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
            }
        ],
    }
    if made.annotations:
        metadata["annotations"] = dict(made.annotations)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": side.kind,
        "metadata": metadata,
        "webhooks": [_trusting(hook.body, bundles.get(hook.body["name"], "")) for hook in made.hooks],
    }  # fmt: skip


def is_ours(found: Mapping[str, Any], owner: configuration.CapsuleConfiguration) -> bool:
    """Tell whether an object was made from this very configuration."""
    return owner.metadata.uid in made_from(found)


def made_from(found: Mapping[str, Any]) -> set[str]:
    """Return the uids of the configurations an object was made from: by label and reference."""
    metadata = found.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if labels.get(constants.CREATED_BY_LABEL) != constants.CREATED_BY_CONTROLLER:
        return set()
    return {
        str(reference.get("uid"))
        for reference in metadata.get("ownerReferences") or ()
        if reference.get("kind") == capsule.CONFIGURATIONS.kind
        and str(reference.get("apiVersion", "")).partition("/")[0] == constants.GROUP
    }


def requesters(
    options: configuration.WebhookOptions | None, roster: identity.Roster
) -> Object | None:
    """Return the condition that leaves out whom a webhook is not about; None = ask always.

    ServiceAccounts are always asked about where users are: those in the namespaces of tenants are
    users, and which these are changes with every namespace.
    """
    if options is None or not (options.capsule_users or options.administrators):
        return None
    subjects: set[identity.Subject] = set()
    terms: list[str] = []
    if options.capsule_users:
        subjects |= roster.users
        terms.append(f"'{identity.SERVICE_ACCOUNTS}' in request.userInfo.groups")
    if options.administrators:
        subjects |= roster.administrators
    if len(subjects) > MOST_SUBJECTS or sum(len(one.name) for one in subjects) > _LONGEST:
        return None
    users = sorted({one.name for one in subjects if one.kind != "Group"})
    groups = sorted({one.name for one in subjects if one.kind == "Group"})
    if users:
        terms.append(f"request.userInfo.username in {_list(users)}")
    if groups:
        terms.append(f"request.userInfo.groups.exists(group, group in {_list(groups)})")
    return {"name": REQUESTERS, "expression": " || ".join(terms) or "false"}


def _metadata(
    given: Mapping[str, str], field: str, *, values: bool
) -> tuple[dict[str, str], list[str]]:
    """Return what may stand in an object's metadata, and what is wrong with the rest."""
    sound, problems = {}, []
    for key, value in given.items():
        if not names.is_qualified_name(key):
            problems.append(clients.invalid(field, key, "must be a qualified name"))
        elif values and not names.is_label_value(value):
            problems.append(clients.invalid(f"{field}[{key}]", value, "must be a label value"))
        else:
            sound[key] = value
    return sound, problems


def _hook_problems(
    side: clients.Side, hook: configuration.ValidatingWebhook, field: str
) -> Iterable[str]:
    if hook.path not in side.paths:
        yield clients.invalid(
            f"{field}.path", hook.path, f"must be among {', '.join(sorted(side.paths))}"
        )
    if not names.is_dns_subdomain(hook.name + side.suffix):
        yield clients.invalid(f"{field}.name", hook.name, "must be a DNS name")
    for name, selector in (
        ("namespaceSelector", hook.namespace_selector),
        ("objectSelector", hook.object_selector),
    ):
        if selector is None:
            continue
        try:
            selectors.matcher(selector.plain(), f"{field}.{name}")
        except errors.InvalidValueError as problem:
            yield str(problem)
    taken: set[str] = set()
    for index, condition in enumerate(hook.match_conditions):
        name = str(condition.get("name", ""))
        if name in taken:
            yield f"{field}.matchConditions[{index}].name: Duplicate value: {errors.shown(name)}"
        taken.add(name)
    if len(hook.match_conditions) > MOST_CONDITIONS:
        yield clients.invalid(
            f"{field}.matchConditions",
            f"{len(hook.match_conditions)} conditions",
            f"must be at most {MOST_CONDITIONS}, since two are added",
        )


def _body(
    side: clients.Side,
    hook: configuration.ValidatingWebhook,
    client: configuration.WebhookClient,
    system: Object,
    roster: identity.Roster,
) -> Object:
    asked = requesters(hook.opts, roster)
    own = [system, *([asked] if asked is not None else [])]
    taken = {condition.get("name") for condition in hook.match_conditions}
    body: Object = {
        "name": hook.name + side.suffix,
        "clientConfig": clients.client_config(client, hook.path),
        "rules": hook.rules,
        "failurePolicy": hook.failure_policy or "Fail",
        "matchPolicy": hook.match_policy or "Equivalent",
        "sideEffects": hook.side_effects,
        "timeoutSeconds": hook.timeout_seconds or 10,
        "admissionReviewVersions": hook.admission_review_versions,
        # Theirs come first, so that the API server names them by the numbers they have.
        "matchConditions": [
            *hook.match_conditions,
            *({**each, "name": _free(each["name"], taken)} for each in own),
        ],
    }
    if hook.namespace_selector is not None:
        body["namespaceSelector"] = hook.namespace_selector.plain()
    if hook.object_selector is not None:
        body["objectSelector"] = hook.object_selector.plain()
    if isinstance(hook, configuration.MutatingWebhook):
        body["reinvocationPolicy"] = hook.reinvocation_policy or "Never"
    return body


def _trusting(body: Object, bundle: str) -> Object:
    if not bundle:
        return body
    return {**body, "clientConfig": {**body["clientConfig"], "caBundle": bundle}}


def _system(namespace: str, controllers: Collection[str]) -> Object:
    """Return the condition that keeps the cluster running while nobody answers."""
    spaces = _list(sorted({"kube-system", "kube-public", "kube-node-lease", namespace}))
    resource, group = "request.resource.resource", "request.resource.group"
    status = "has(request.subResource) && request.subResource == 'status'"
    parts = (
        f"!(request.userInfo.username in {_list(sorted(controllers))})",
        f"!(has(request.namespace) && request.namespace in {spaces})",
        match_conditions.NOT_NODES["expression"],
        f"({match_conditions.NOT_KUBE_SYSTEM_UNLESS_CREATING['expression']})",
        match_conditions.not_vital(namespace)["expression"],
        f"!({group} == 'coordination.k8s.io')",
        f"!({group} == '' && {resource} in ['nodes', 'pods'] && {status})",
        f"!({group} in ['', 'events.k8s.io'] && {resource} == 'events')",
    )
    return {"name": CONDITION, "expression": " && ".join(parts)}


def _free(name: str, taken: Collection[Any]) -> str:
    while name in taken:
        name += "-1"
    return name


def _list(texts: Iterable[str]) -> str:
    """Write a list of strings in CEL, whose strings are JSON's but for surrogates."""
    return json.dumps(list(texts), ensure_ascii=False)
