"""Pods and DaemonSets of tenants: keep them inside the fence, whoever creates them.

A pod is made by a person, or by a controller of the cluster from a template that a person wrote,
so the cluster's own controllers are asked like everybody else. A DaemonSet is fenced as well,
since its controller decides by the template on which nodes there shall be a pod.
"""

from __future__ import annotations

from typing import Any

from tenantry.api import resources
from tenantry.nodes import evidence, fence, views
from tenantry.runtime import admission, jsonpatch

Object = dict[str, Any]
Decision = admission.Decision

NODE_NAME = (
    'pods "{name}" is forbidden: spec.nodeName: Forbidden: "{node}": only the scheduler places '
    "pods of tenants; leave it out and select nodes by labels"
)
BINDING = (
    'pods "{name}" is forbidden: binding to node "{node}": only schedulers outside of tenants place '
    "pods of tenants"
)
MIRROR = (
    'pods "{name}" is forbidden: metadata.annotations[{key}]: Forbidden: "{value}": only kubelets '
    "make mirror pods; leave it out"
)
OUTSIDE = '{plural} "{name}" is forbidden: {problem}'


def _is_pod(review: admission.Review) -> bool:
    return (
        review.is_about(resources.PODS)
        and not review.subresource
        and review.operation in ("CREATE", "UPDATE")
    )


def _is_daemon_set(review: admission.Review) -> bool:
    return (
        review.is_about(resources.DAEMON_SETS)
        and not review.subresource
        and review.operation in ("CREATE", "UPDATE")
    )


def _is_binding(review: admission.Review) -> bool:
    if review.group or review.operation != "CREATE":
        return False
    return review.resource == "bindings" or (
        review.resource == resources.PODS.plural and review.subresource == "binding"
    )


def mutate_pod(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Add the tenant's tolerations, node selector and affinity."""
    pod = review.object
    if pod is None or known.around is None or _static(pod):
        return admission.Allow()
    spec = pod.get("spec") or {}
    # Where a pod may run is fixed once it exists, unless it is still gated.
    placing = review.old is None or _gated(review.old)
    if review.old is not None and (spec.get("nodeName") or _leaving(pod)):
        return admission.Allow()
    return _patched(pod, fence.fenced(spec, known.around, placing=placing), ("spec",))


def mutate_daemon_set(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Add the same to the template of a DaemonSet."""
    found = review.object
    if found is None or known.around is None or _leaving(found):
        return admission.Allow()
    spec = ((found.get("spec") or {}).get("template") or {}).get("spec")
    if spec is None:
        return admission.Allow()
    fenced = fence.fenced(spec, known.around, template=True)
    return _patched(found, fenced, ("spec", "template", "spec"))


def _patched(found: Object, spec: Object, path: tuple[str, ...]) -> Decision:
    before: Any = found
    for part in path:
        before = before[part]
    operations = jsonpatch.difference(before, spec)
    prefix = jsonpatch.pointer(*path)
    return admission.Patch([{**one, "path": prefix + one["path"]} for one in operations])


def validate_pod(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Refuse a pod that leaves the fence, judged by what this request brings."""
    pod = review.object
    if pod is None or known.around is None:
        return admission.Allow()
    spec, old = pod.get("spec") or {}, (review.old or {}).get("spec")
    name = _name(review, pod)
    if _static(pod) and not _static(review.old or {}):
        if known.system:
            return admission.Allow()
        # Mirror pods count as the system's, on whosever node they are.
        value = pod["metadata"]["annotations"][views.MIRROR]
        return admission.Deny(MIRROR.format(name=name, key=views.MIRROR, value=value))
    if old is None and spec.get("nodeName") and not known.system:
        return admission.Deny(NODE_NAME.format(name=name, node=spec["nodeName"]))
    text = fence.problem(spec, known.around, old)
    return admission.Deny(OUTSIDE.format(plural="pods", name=name, problem=text)) if text else _OK


def validate_daemon_set(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Refuse a DaemonSet whose pods would be refused."""
    found = review.object
    if found is None or known.around is None:
        return admission.Allow()
    spec = _template(found)
    stored = None if review.old is None else _template(review.old)
    text = fence.problem(spec, known.around, stored, template=True)
    if not text:
        return _OK
    problem = text.replace("spec.", "spec.template.spec.", 1)
    name = _name(review, found)
    return admission.Deny(OUTSIDE.format(plural="daemonsets", name=name, problem=problem))


def _template(found: Object) -> Object:
    spec: Object = ((found.get("spec") or {}).get("template") or {}).get("spec") or {}
    return spec


def validate_binding(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Let only schedulers place a tenant's pods."""
    if known.around is None or known.system:
        return admission.Allow()
    binding = review.object or {}
    node = (binding.get("target") or {}).get("name") or ""
    return admission.Deny(BINDING.format(name=_name(review, binding), node=node))


_OK = admission.Allow()


def _static(pod: Object) -> bool:
    return views.MIRROR in ((pod.get("metadata") or {}).get("annotations") or {})


def _gated(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def _leaving(found: Object) -> bool:
    return bool((found.get("metadata") or {}).get("deletionTimestamp"))


def _name(review: admission.Review, found: Object) -> str:
    metadata = found.get("metadata") or {}
    return review.name or str(metadata.get("name") or metadata.get("generateName") or "")


MUTATING = (
    admission.Step(name="nodes.pods.fence", matches=_is_pod, decide=mutate_pod),
    admission.Step(name="nodes.daemonsets.fence", matches=_is_daemon_set, decide=mutate_daemon_set),
)
VALIDATING = (
    admission.Step(name="nodes.pods.inside", matches=_is_pod, decide=validate_pod),
    admission.Step(
        name="nodes.daemonsets.inside", matches=_is_daemon_set, decide=validate_daemon_set
    ),
    admission.Step(name="nodes.pods.binding", matches=_is_binding, decide=validate_binding),
)
