"""Which nodes a DaemonSet reaches, and which it would if they were not dedicated; pure.

Sets of nodes are whole numbers, one bit per node: an index of labels and taints is made once, and
then each DaemonSet costs a few operations on numbers however many nodes there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tenantry.api import meta
from tenantry.nodes import taints, views

Importance = Literal["gpu", "network", "storage", "monitoring", "other"]

#: Words in name, namespace, images or owner -> importance; the first that fits.
_WORDS: tuple[tuple[Importance, str], ...] = (
    ("monitoring", "exporter|prometheus|fluent[a-z-]*|promtail|otel[a-z-]*|metrics|monitor"),
    ("gpu", "gpu|nvidia|amdgpu|mig|dcgm|cuda|npu|nfd|node-feature-discovery|device-plugin"),
    (
        "network",
        "flannel|calico|cilium|multus|kube-proxy|rdma|metallb|whereabouts|sriov|cni|network|"
        "speaker|infiniband|ovn|weave|dns",
    ),
    ("storage", "csi|nfs|ceph|rook|lustre|juicefs|storage|volume"),
)
_IMPORTANCE = [(kind, re.compile(rf"(^|[^a-z])({words})([^a-z]|$)")) for kind, words in _WORDS]


class _Wire(msgspec.Struct, rename="camel", gc=False):
    pass


class _Spec(_Wire):
    template: dict[str, Any] = {}


class _DaemonSet(_Wire):
    metadata: meta.ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_DAEMON_SET = msgspec.json.Decoder(_DaemonSet)


class View(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A DaemonSet as the audit needs it."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    owner: str
    """kind/name of what controls it; "" for nobody"""
    template: dict[str, Any]
    """specification of its pods"""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def view(raw: bytes) -> View:
    """Project one DaemonSet."""
    found = _DAEMON_SET.decode(raw)
    metadata = found.metadata
    owner = next((one for one in metadata.owner_references if one.controller), None)
    return View(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        labels=metadata.labels,
        annotations=metadata.annotations,
        owner=f"{owner.kind}/{owner.name}" if owner is not None else "",
        template=found.spec.template.get("spec") or {},
    )


def importance(found: View) -> Importance:
    """Say what a DaemonSet is for, by its name, then its namespace, owner and images."""
    images = " ".join(str(one.get("image", "")) for one in found.template.get("containers") or ())
    for text in (found.name, f"{found.namespace} {found.owner} {images}"):
        for kind, words in _IMPORTANCE:
            if words.search(text.lower()):
                return kind
    return "other"


class Nodes:
    """The index of a cluster's nodes."""

    def __init__(self, nodes: Iterable[views.NodeView], dedicated_keys: Collection[str]) -> None:
        """Index them.

        :param dedicated_keys: keys of taints that give a node to a tenant
        """
        self.names = sorted(nodes, key=lambda node: node.name)
        self._bit = {node.name: 1 << index for index, node in enumerate(self.names)}
        self.all = (1 << len(self.names)) - 1
        self._values: dict[str, dict[str, int]] = {}
        self._tainted: dict[tuple[taints.Taint, ...], int] = {}
        self.dedicated = 0
        self._keys = frozenset(dedicated_keys)
        for node in self.names:
            bit = self._bit[node.name]
            for key, value in node.labels.items():
                values = self._values.setdefault(key, {})
                values[value] = values.get(value, 0) | bit
            hard = tuple(taint for taint in node.taints if taint.effect in taints.HARD)
            self._tainted[hard] = self._tainted.get(hard, 0) | bit
            if any(taint.key in self._keys for taint in hard):
                self.dedicated |= bit

    def named(self, mask: int) -> list[str]:
        """Return the names of a set, in the order of names."""
        found = []
        while mask:
            low = mask & -mask
            found.append(self.names[low.bit_length() - 1].name)
            mask ^= low
        return found

    def of(self, names: Iterable[str]) -> int:
        """Return the set of these nodes."""
        mask = 0
        for name in names:
            mask |= self._bit.get(name, 0)
        return mask

    def tolerated(self, given: Sequence[taints.Toleration], *, dedicated: bool) -> int:
        """Return the nodes whose taints are all tolerated.

        :param dedicated: whether the taints that give nodes to tenants count
        """
        mask = 0
        for listed, nodes in self._tainted.items():
            counting = [one for one in listed if dedicated or one.key not in self._keys]
            if taints.tolerated(counting, given):
                mask |= nodes
        return mask

    def selected(self, template: Mapping[str, Any]) -> int:
        """Return the nodes that node selector and required node affinity allow."""
        mask = self.all
        for key, value in (template.get("nodeSelector") or {}).items():
            mask &= self._values.get(key, {}).get(value, 0)
        node = (template.get("affinity") or {}).get("nodeAffinity") or {}
        required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        if required is None:
            return mask
        allowed = 0
        for term in required.get("nodeSelectorTerms") or ():
            allowed |= self._term(term)
        return mask & allowed

    def _term(self, term: Mapping[str, Any]) -> int:
        expressions = term.get("matchExpressions") or ()
        by_field = term.get("matchFields") or ()
        if not expressions and not by_field:
            return 0  # an empty term matches no node
        mask = self.all
        for one in expressions:
            mask &= self._expression(one, self._values.get(one.get("key") or "", {}))
        if by_field:
            names = {node.name: self._bit[node.name] for node in self.names}
            for one in by_field:
                mask &= self._expression(one, names if one.get("key") == "metadata.name" else {})
        return mask

    def _expression(self, one: Mapping[str, Any], values: Mapping[str, int]) -> int:
        operator, wanted = one.get("operator"), one.get("values") or ()
        if operator in ("In", "NotIn"):
            listed = _joined(values.get(value, 0) for value in wanted)
            return listed if operator == "In" else self.all & ~listed
        if operator in ("Exists", "DoesNotExist"):
            there = _joined(values.values())
            return there if operator == "Exists" else self.all & ~there
        if operator in ("Gt", "Lt") and len(wanted) == 1:
            return _joined(
                nodes
                for value, nodes in values.items()
                if _compares(value, operator, str(next(iter(wanted))))
            )
        return 0


def _joined(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _compares(value: str, operator: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found of one DaemonSet."""

    namespace: str
    name: str
    importance: Importance
    wanted: int
    """nodes it would be on if none were dedicated"""
    eligible: int
    """nodes it can be on"""
    blocked: tuple[str, ...]
    """nodes that only their dedication keeps it from"""
    not_ready: tuple[str, ...]
    """nodes on which it can be, and has no pod that is ready"""
    owner: str

    @property
    def severity(self) -> Literal["ok", "warning", "critical"]:
        if self.blocked:
            return "critical" if self.importance in ("gpu", "network") else "warning"
        return "warning" if self.not_ready else "ok"

    @property
    def verdict(self) -> str:
        if self.blocked:
            return f"blocked on {len(self.blocked)}"
        return f"{len(self.not_ready)} not ready" if self.not_ready else "ok"


def given(template: Mapping[str, Any]) -> tuple[taints.Toleration, ...]:
    """Return what a DaemonSet's pods tolerate, with what its controller adds."""
    host = bool(template.get("hostNetwork"))
    return taints.tolerations(template) + taints.controller_tolerations(host_network=host)


def audit(
    found: Iterable[View],
    nodes: Nodes,
    ready: Callable[[View], Iterable[str]],
) -> list[Audit]:
    """Audit DaemonSets, sorted by namespace and name.

    :param ready: gives the nodes on which one has a pod that is ready
    """
    result = []
    for one in sorted(found, key=lambda item: (item.namespace, item.name)):
        tolerations = given(one.template)
        selected = nodes.selected(one.template)
        wanted = selected & nodes.tolerated(tolerations, dedicated=False)
        actual = selected & nodes.tolerated(tolerations, dedicated=True)
        result.append(
            Audit(
                namespace=one.namespace,
                name=one.name,
                importance=importance(one),
                wanted=wanted.bit_count(),
                eligible=actual.bit_count(),
                blocked=tuple(nodes.named(wanted & ~actual)),
                not_ready=tuple(nodes.named(actual & ~nodes.of(ready(one)))),
                owner=one.owner or tracker(one),
            )
        )
    return result


def tracker(found: View) -> str:
    """Name the tool that would undo a change by hand; "" for none."""
    for source, key, tool in (
        (found.annotations, "meta.helm.sh/release-name", "Helm release"),
        (found.annotations, "argocd.argoproj.io/tracking-id", "Argo CD"),
        (found.labels, "argocd.argoproj.io/instance", "Argo CD application"),
        (found.labels, "kustomize.toolkit.fluxcd.io/name", "Flux kustomization"),
        (found.labels, "helm.toolkit.fluxcd.io/name", "Flux release"),
    ):
        if source.get(key):
            return f"{tool} {source[key]}"
    if found.labels.get("app.kubernetes.io/managed-by") == "Helm":
        return "Helm"
    return ""
