"""What pods say about nodes and other pods: affinity, tolerations, topology spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import specs

Json = Mapping[str, Any]


def _requirements(expressions: Any) -> tuple[specs.Requirement, ...]:
    return tuple(
        specs.Requirement(
            key=expression.get("key", ""),
            operator=expression.get("operator", ""),
            values=tuple(expression.get("values") or ()),
        )
        for expression in expressions or ()
    )


def named_labels(parts: Json, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the pod's labels that its spread constraints take over by `matchLabelKeys`."""
    return {
        key: labels[key]
        for item in parts.get("topologySpreadConstraints") or ()
        for key in item.get("matchLabelKeys") or ()
        if key in labels
    }


#: What a missing selector means: no pod at all.
_NONE = (specs.Requirement(key="", operator="In"),)


def _selector(selector: Json | None) -> tuple[specs.Requirement, ...]:
    if selector is None:
        return _NONE
    labels = tuple(
        specs.Requirement(key=key, operator="In", values=(value,))
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    return labels + _requirements(selector.get("matchExpressions"))


def _term(term: Json) -> tuple[specs.Requirement, ...]:
    fields = tuple(
        specs.Requirement(key=r.key, operator=r.operator, values=r.values)
        for r in _requirements(term.get("matchFields"))
    )
    return _requirements(term.get("matchExpressions")) + fields


def node_terms(affinity: Json) -> specs.Terms:
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return tuple(_term(term) for term in required.get("nodeSelectorTerms") or ())


def preferred(affinity: Json) -> tuple[tuple[int, tuple[specs.Requirement, ...]], ...]:
    preferred = (affinity.get("nodeAffinity") or {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    )
    return tuple(
        (int(term.get("weight", 1)), _term(term.get("preference") or {}))
        for term in preferred or ()
    )


def toleration(item: Json) -> specs.Toleration:
    return specs.Toleration(
        key=item.get("key", "") or "",
        operator=item.get("operator", "Equal") or "Equal",
        value=item.get("value", "") or "",
        effect=item.get("effect", "") or "",
    )


def pod_terms(affinity: Json | None) -> tuple[specs.AffinityTerm, ...]:
    affinity = affinity or {}
    found = [
        (0, term) for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    found += [
        (int(weighted.get("weight", 1)), weighted.get("podAffinityTerm") or {})
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    return tuple(
        specs.AffinityTerm(
            topology_key=term.get("topologyKey", ""),
            selector=_selector(term.get("labelSelector")),
            namespaces=tuple(term.get("namespaces") or ()),
            of_namespaces=(
                None
                if term.get("namespaceSelector") is None
                else _selector(term["namespaceSelector"])
            ),
            weight=weight,
        )
        for weight, term in found
    )


def spread(constraints: Any, own: Mapping[str, str]) -> tuple[specs.Spread, ...]:
    return tuple(
        specs.Spread(
            topology_key=item.get("topologyKey", ""),
            max_skew=int(item.get("maxSkew", 1)),
            selector=_selector(item.get("labelSelector"))
            + tuple(
                specs.Requirement(key=key, operator="In", values=(own[key],))
                for key in item.get("matchLabelKeys") or ()
                if key in own
            ),
            hard=item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
            min_domains=int(item.get("minDomains") or 1),
            by_affinity=item.get("nodeAffinityPolicy", "Honor") != "Ignore",
            by_taints=item.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )
        for item in constraints
    )
