"""What an identity was given to see: its tenants, and kinds beyond them. Pure."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable

from tenantry.api import meta
from tenantry.api.capsule import constants, proxy_settings, tenant
from tenantry.gateway import paths, terms

#: Legacy word -> what it means.
LEGACY = {
    "Nodes": ("", "nodes"),
    "StorageClasses": ("storage.k8s.io", "storageclasses"),
    "IngressClasses": ("networking.k8s.io", "ingressclasses"),
    "PriorityClasses": ("scheduling.k8s.io", "priorityclasses"),
    "RuntimeClasses": ("node.k8s.io", "runtimeclasses"),
    "PersistentVolumes": ("", "persistentvolumes"),
}
#: Kinds whose objects are named after others: metrics of nodes are seen as the nodes are.
_SAME = {("metrics.k8s.io", "nodes"): ("", "nodes")}


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """One tenant with the legacy words that the identity has for it."""

    tenant: tenant.Tenant
    words: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Grants:
    """Everything an identity was given."""

    user: bool = False
    """whether the gateway filters for this identity at all"""
    held: tuple[Held, ...] = ()
    rules: tuple[proxy_settings.ClusterResource, ...] = ()

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(found.tenant.metadata.name for found in self.held)

    def of(self, target: paths.Target, *, get: bool) -> terms.Terms | None:
        """Return what is visible of a cluster-wide kind; None when nothing was said about it.

        :param get: whether one object is asked for by name, which `Get` alone allows
        """
        kind = _SAME.get((target.group, target.plural), (target.group, target.plural))
        known = False
        found: terms.Terms = ()
        for held in self.held:
            for word in held.words:
                if LEGACY[word] == kind:
                    known = True
                    found += _legacy(word, held.tenant)
        for rule in self.rules:
            if applies(rule, target, get=get):
                known = True
                found += terms.labelled(rule.selector)
        return tuple(dict.fromkeys(found)) if known else None


NOBODY = Grants()


def legacy_words(settings: Iterable[tenant.ProxySetting]) -> frozenset[str]:
    """Return the kinds that may be listed; without List the other operations mean nothing."""
    return frozenset(s.kind for s in settings if "List" in s.operations and s.kind in LEGACY)


def applies(rule: proxy_settings.ClusterResource, target: paths.Target, *, get: bool) -> bool:
    """Tell whether a rule is about a kind and an operation."""
    wanted = set(rule.operations) or {"List", "Get"}
    # Words of the older schema meant every read there.
    reads = {"List", "Get"} if wanted <= {"Update", "Delete"} else wanted & {"List", "Get"}
    if not ("List" in reads or (get and "Get" in reads)):
        return False
    if not any(word in {"*", target.plural} for word in rule.resources):
        return False
    return any(_group(pattern, target) for pattern in rule.api_groups)


def _group(pattern: str, target: paths.Target) -> bool:
    if pattern == "*":
        return True
    whole = f"{target.group}/{target.version}" if "/" in pattern else target.group
    if "*" not in pattern:
        return pattern == whole
    return _glob(pattern).fullmatch(whole) is not None


@functools.lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    # Stars that touch mean one; each alternative is literal text, so this cannot backtrack badly
    # on the short names of API groups.
    parts = re.split(r"\*+", pattern)
    return re.compile(".*".join(map(re.escape, parts)))


def _legacy(word: str, found: tenant.Tenant) -> terms.Terms:
    spec = found.spec
    match word:
        case "Nodes":
            # Whoever was given the nodes of a tenant that may run on all of them sees all.
            if not spec.node_selector:
                return terms.EVERYTHING
            return terms.labelled(meta.LabelSelector(match_labels=spec.node_selector))
        case "StorageClasses":
            return terms.allowed(spec.storage_classes)
        case "IngressClasses":
            options = spec.ingress_options
            return terms.allowed(options.allowed_classes if options else None)
        case "PriorityClasses":
            return terms.allowed(spec.priority_classes)
        case "RuntimeClasses":
            return terms.allowed(spec.runtime_classes)
        case _:
            owned = {constants.TENANT_LABEL: found.metadata.name}
            return terms.labelled(meta.LabelSelector(match_labels=owned))
