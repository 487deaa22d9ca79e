"""What pods may be: images and pull policies, scheduler, quality of service, classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants, rules, tenant
from tenantry.core import errors, regex
from tenantry.tenancy.policy import blocks, engine, images, matching, qos

Object = Mapping[str, Any]

INIT = "pod/initcontainers"
CONTAINERS = "pod/containers"
EPHEMERAL = "pod/ephemeralcontainers"
VOLUMES = "pod/volumes"
POD = "pod"

#: Parts of a pod that pull images, with the field that lists them.
PARTS = (
    (INIT, "initContainers"),
    (CONTAINERS, "containers"),
    (EPHEMERAL, "ephemeralContainers"),
)
IMAGE_TARGETS = (INIT, CONTAINERS, EPHEMERAL, VOLUMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUse:
    """One image that a pod pulls.

    :param image: None when no runtime could pull it
    """

    part: str
    path: str
    name: str
    written: str
    image: images.Image | None
    pull_policy: str


def image_uses(pod: Object) -> Iterator[ImageUse]:
    """Yield every image of a pod, whatever pulls it."""
    spec: Object = pod.get("spec") or {}
    for part, field in PARTS:
        for index, container in enumerate(spec.get(field) or ()):
            yield _use(part, f"{field}[{index}]", container, container.get("image") or "")
    for index, volume in enumerate(spec.get("volumes") or ()):
        source = volume.get("image")
        if source is not None:
            path = f"volumes[{index}]({volume.get('name') or ''})"
            yield _use(
                VOLUMES, path, {**source, "name": volume.get("name")}, source.get("reference") or ""
            )


def _use(part: str, path: str, found: Object, written: str) -> ImageUse:
    policy = found.get("imagePullPolicy") or found.get("pullPolicy") or ""
    try:
        image = images.parse(written)
    except errors.InvalidValueError:
        image = None
    return ImageUse(
        part=part,
        path=path,
        name=str(found.get("name") or ""),
        written=written,
        image=image,
        pull_policy=policy,
    )


def new_uses(pod: Object, old: Object | None) -> list[ImageUse]:
    """Return the images that a change brings: what runs already goes on running."""
    known = set()
    if old is not None:
        known = {(use.part, use.name, use.written, use.pull_policy) for use in image_uses(old)}
    return [
        use
        for use in image_uses(pod)
        if (use.part, use.name, use.written, use.pull_policy) not in known
    ]


# ---- rule sets ----------------------------------------------------------------------------------


def image_sets(
    spec: tenant.TenantSpec, selected: Sequence[blocks.Block]
) -> tuple[engine.RuleSet[ImageUse], ...]:
    """Compile everything that limits images and how they are pulled."""
    found = []
    if spec.image_pull_policies:
        found.append(_legacy_pull_policies(spec.image_pull_policies))
    if spec.container_registries is not None:
        found.append(
            _legacy_registries(
                spec.container_registries.allowed, spec.container_registries.allowed_regex
            )
        )
    clauses = [
        _registries(block, workloads)
        for block, workloads in blocks.of_workloads(selected)
        if workloads.registries
    ]
    if clauses:
        found.append(
            engine.RuleSet(
                name="registry",
                clauses=tuple(clauses),
                allowed="Allowed registries",
                event=constants.FORBIDDEN_REGISTRY_EVENT,
                show=lambda use: use.written,
                further=_pull_policy,
            )
        )
    return tuple(found)


def _legacy_pull_policies(allowed: Sequence[str]) -> engine.RuleSet[ImageUse]:
    lowered = frozenset(policy.lower() for policy in allowed)
    words = ", ".join(allowed)
    return engine.RuleSet(
        name="imagePullPolicies",
        event=constants.FORBIDDEN_PULL_POLICY_EVENT,
        clauses=(
            blocks.legacy(
                lambda use: use.pull_policy.lower() in lowered, words, "spec.imagePullPolicies"
            ),
        ),
        word=lambda use: (
            f"ImagePullPolicy {use.pull_policy} for container {use.name} is forbidden, "
            f"use one of the followings: {words}"
        ),
    )


def _legacy_registries(allowed: Sequence[str], expression: str) -> engine.RuleSet[ImageUse]:
    listed = frozenset(name.lower() for name in allowed)
    parts = [f"use one from the following list ({', '.join(allowed)})"] if allowed else []
    if expression:
        # The second space is upstream's, and scripts compare.
        parts.append(f" use one matching the following regex ({expression})")
    words = " or ".join(parts)
    broken, pattern = "", None
    try:
        pattern = regex.compile(expression, "spec.containerRegistries.allowedRegex")
    except errors.InvalidValueError as problem:
        broken = str(problem)

    def matches(use: ImageUse) -> bool:
        image = use.image
        if image is None or not image.qualified:
            return False
        if image.registry in listed:
            return True
        return bool(expression and pattern and pattern.search(image.registry))

    def word(use: ImageUse) -> str:
        if use.image is None or not use.image.qualified:
            return (
                f"Container image {use.written} is not fully qualified, so its registry is not "
                f"known, which is forbidden for the current Tenant: {words}"
            )
        return (
            f"Container image {use.written} registry is forbidden for the current Tenant: {words}"
        )

    return engine.RuleSet(
        name="containerRegistries",
        event_of=_registry_event,
        clauses=(blocks.legacy(matches, words, "spec.containerRegistries", broken=broken),),
        word=word,
    )


def _registry_event(use: ImageUse) -> str:
    """Tell an image of a registry that may not be used from one whose registry is not written."""
    if use.image is not None and not use.image.qualified:
        return constants.MISSING_FQCI_EVENT
    return constants.FORBIDDEN_REGISTRY_EVENT


@dataclass(frozen=True, slots=True)
class _Entries:
    """The registries of one block, which together are one rule."""

    action: engine.Action
    entries: tuple[tuple[matching.Expression, tuple[str, ...]], ...]

    def __call__(self, use: ImageUse) -> bool:
        return any(self._matches(entry, policy, use) for entry, policy in self.entries)

    def _matches(self, entry: matching.Expression, policy: tuple[str, ...], use: ImageUse) -> bool:
        if self.action != engine.ALLOW and policy and use.pull_policy not in policy:
            return False
        return self.names(entry, use)

    def names(self, entry: matching.Expression, use: ImageUse) -> bool:
        """Tell whether an entry is about an image; in doubt, as the stricter reading has it."""
        strict = (self.action == engine.ALLOW) == entry.negate
        if use.image is None:
            # Nobody knows what it is: no list that allows has it, every other one may mean it.
            return self.action != engine.ALLOW
        return entry.matches_any(use.image.wide_forms if strict else use.image.forms)

    def pull_policies(self, use: ImageUse) -> tuple[str, ...] | None:
        """Return the pull policies that an image may be pulled with; None for any."""
        policies: list[str] = []
        for entry, policy in self.entries:
            if self.names(entry, use):
                if not policy:
                    return None
                policies += policy
        return tuple(dict.fromkeys(policies))


def _registries(block: blocks.Block, workloads: rules.Workloads) -> engine.Clause[ImageUse]:
    targets = frozenset(workloads.targets) & frozenset(IMAGE_TARGETS)

    def build() -> tuple[Callable[[ImageUse], bool], str]:
        entries = []
        for index, entry in enumerate(workloads.registries):
            field = f"{block.source}.enforce.workloads.registries[{index}]"
            expression = matching.expression(entry, field, block.render)
            entries.append((expression, tuple(block.rendered(entry.policy))))
        words = engine.listed([entry.words for entry, _ in entries])
        return _Entries(block.enforce.action, tuple(entries)), words

    return block.clause(
        build, applies=(lambda use: use.part in targets) if workloads.targets else None
    )


def _pull_policy(use: ImageUse, path: str, clause: engine.Clause[ImageUse]) -> str:
    if not isinstance(clause.matches, _Entries):
        return ""
    allowed = clause.matches.pull_policies(use)
    if allowed is None or use.pull_policy in allowed:
        return ""
    words = ", ".join(allowed)
    if not use.pull_policy:
        return (
            f'registry "{use.written}" at {path} must explicitly set pullPolicy (allowed: {words})'
        )
    return (
        f'registry "{use.written}" at {path} uses pullPolicy={use.pull_policy} which is not '
        f"allowed (allowed: {words})"
    )


def scheduler_sets(selected: Sequence[blocks.Block]) -> tuple[engine.RuleSet[str], ...]:
    """Compile what limits schedulers."""
    return blocks.expression_set(
        "scheduler",
        "Allowed schedulers",
        constants.FORBIDDEN_SCHEDULER_EVENT,
        [
            (block, found.schedulers, "workloads.schedulers")
            for block, found in blocks.of_workloads(selected)
        ],
    )


def qos_sets(selected: Sequence[blocks.Block]) -> tuple[engine.RuleSet[str], ...]:
    """Compile what limits classes of service."""
    return blocks.listed_set(
        "QoS class",
        "Allowed QoS classes",
        constants.FORBIDDEN_QOS_EVENT,
        [(block, found.qos_classes) for block, found in blocks.of_workloads(selected)],
    )


def qos_class(pod: Object) -> str:
    """Return a pod's class of service, which the API server has not written yet."""
    return qos.of(pod.get("spec") or {})
