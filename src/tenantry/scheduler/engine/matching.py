"""Match labels against requirements of selectors and affinity terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenantry.scheduler.engine import specs


def holds(requirement: specs.Requirement, labels: Mapping[str, str]) -> bool:
    """Tell whether one requirement is met; Gt and Lt compare integers."""
    value = labels.get(requirement.key)
    operator = requirement.operator
    if operator == "In":
        return value is not None and value in requirement.values
    if operator == "NotIn":
        return value is None or value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and requirement.values:
        try:
            left, right = int(value), int(requirement.values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False


def all_hold(requirements: Iterable[specs.Requirement], labels: Mapping[str, str]) -> bool:
    """Tell whether every requirement is met."""
    return all(holds(requirement, labels) for requirement in requirements)


def node_matches(constraints: specs.Constraints, node: specs.Node) -> bool:
    """Tell whether node selector and required node affinity let the pod on the node."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in constraints.selector):
        return False
    if not constraints.affinity:
        return True
    return any(term and term_holds(term, node) for term in constraints.affinity)


def term_holds(term: tuple[specs.Requirement, ...], node: specs.Node) -> bool:
    """Tell whether a node selector term, fields included, means the node."""
    return all_hold(term, {**node.labels, "metadata.name": node.name})


def tolerates(constraints: specs.Constraints, node: specs.Node) -> bool:
    """Tell whether every hard taint of the node is tolerated."""
    return all(
        taint.effect not in ("NoSchedule", "NoExecute")
        or any(toleration.covers(taint) for toleration in constraints.tolerations)
        for taint in node.taints
    )


def selects(
    term: specs.AffinityTerm,
    namespace: str,
    task: specs.Task,
    namespaces: Mapping[str, Mapping[str, str]] = specs.NOTHING,
) -> bool:
    """Tell whether a pod affinity term written in a namespace means this task.

    :param namespaces: labels of namespaces by name
    """
    within = term.namespaces or (() if term.of_namespaces is not None else (namespace,))
    if task.namespace not in within:
        if term.of_namespaces is None:
            return False
        labels = {
            "kubernetes.io/metadata.name": task.namespace,
            **namespaces.get(task.namespace, specs.NOTHING),
        }
        if not all_hold(term.of_namespaces, labels):
            return False
    return all_hold(term.selector, task.labels)
