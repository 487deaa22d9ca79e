"""Seed 000 chapter 6: its nodes, and the DaemonSets of specs/governance 10.1 as objects."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "seed-000"
FIVE = ("gpu-worker-100", "gpu-worker-25", "gpu-worker-26", "gpu-worker-27", "gpu-worker-28")
BEARS: list[Object] = [{"operator": "Exists", "effect": "NoSchedule"}]
LINUX = {"kubernetes.io/os": "linux"}
GPU = {"mars-tech.com/gpu.installed": "true"}
#: 79 nodes have GPUs; without these four, 75.
NOT_FOUR = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "mars-tech.com/gpu.installed", "operator": "Exists"},
                        {
                            "key": "kubernetes.io/hostname",
                            "operator": "NotIn",
                            "values": [f"gpu-worker-{number}" for number in (1, 2, 3, 4)],
                        },
                    ]
                }
            ]
        }
    }
}
#: Which tolerate the taint is said by the listing: 102 do, 97 do not.
TEMPLATES: dict[str, Object] = {
    "csi-nfs-node": {"nodeSelector": LINUX, "tolerations": BEARS},
    "kube-flannel-ds": {"tolerations": BEARS, "hostNetwork": True},
    "kube-multus-ds": {"tolerations": BEARS},
    "kube-proxy": {"nodeSelector": LINUX, "tolerations": [{"operator": "Exists"}]},
    "rdma-shared-dp-ds": {},
    "whereabouts-whereabouts-chart": {"nodeSelector": LINUX, "tolerations": BEARS},
    "mars-gpu-device": {
        "nodeSelector": GPU,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    },
    "mars-gpu-label": {"affinity": NOT_FOUR, "tolerations": BEARS},
    "metallb-speaker": {"nodeSelector": LINUX},
    "mars-ht-exporter": {},
    "prometheus-stack-prometheus-node-exporter": {"nodeSelector": LINUX, "tolerations": BEARS},
    "nfd-node-feature-discovery-worker": {},
}
#: Which are blocked on the five, and how bad that is.
BLOCKED = {
    "rdma-shared-dp-ds": "critical",
    "mars-gpu-device": "critical",
    "metallb-speaker": "critical",
    "mars-ht-exporter": "warning",
    "nfd-node-feature-discovery-worker": "critical",
}


@functools.cache
def nodes() -> tuple[Object, ...]:
    documents = yaml.safe_load_all((FIXTURES / "nodes.yaml").read_text())
    return tuple(one for one in documents if one)


def twelve() -> list[Object]:
    """Return the five, five more with GPUs (one of which mars-gpu-label leaves out), two without."""
    by_name = {one["metadata"]["name"]: one for one in nodes()}
    without = [name for name, one in by_name.items() if GPU.keys() - one["metadata"]["labels"]]
    chosen = [*FIVE, *(f"gpu-worker-{number}" for number in (4, 5, 6, 7, 8)), *without[:2]]
    found = [copy.deepcopy(by_name[name]) for name in chosen]
    for one in found:
        one["metadata"]["labels"]["seed"] = "000"
    return found


def rows() -> list[tuple[str, str, int]]:
    """Return namespace, name and desired count of each DaemonSet in the document's listing."""
    lines = (FIXTURES / "daemonsets.tsv").read_text().splitlines()
    split = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(row[0], row[1], int(row[2])) for row in split]


def daemon_set(namespace: str, name: str, **template: Any) -> Object:
    """Return a DaemonSet of the listing, for an API server."""
    container = {"name": "main", "image": "registry.invalid/none"}
    spec = {"containers": [container], **TEMPLATES[name], **template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            # All at once: what is of interest is where they come to, not in which order.
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        },
    }
