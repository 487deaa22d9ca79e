"""Seed 000 chapter 6: nodes of a tenant's own, on the 102 nodes of the document's cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tenantry.cli.walkthroughs import steps
from tenantry.cli.walkthroughs.seed_000 import MARK
from tenantry.cli.walkthroughs.steps import Answer, Chapter, Step

#: The nodes to start a platform with.
NODES = Path(__file__).with_name("seed_000_nodes.yaml")

_FIVE = tuple(f"gpu-worker-{number}" for number in ("100", "25", "26", "27", "28"))
LISTING = "\n".join(f"{node}\ttenant-dedicated=tenant01:NoSchedule" for node in _FIVE)
_POOL_HEADER = (
    "NAME", "TENANT", "MODE", "NODES", "DEDICATED", "READY", "COMPLETE", "EXCLUSIVE", "STATUS",
    "AGE",
)  # fmt: skip
_TOLERATIONS = "jsonpath={.spec.template.spec.tolerations[*].key}"


def _tenant(name: str, owner: str) -> str:
    return f"""\
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata:
  name: {name}
  labels:
    {MARK}: seed-000
spec:
  owners:
  - kind: User
    name: {owner}
"""


_POOL = f"""\
apiVersion: tenantry.io/v1alpha1
kind: TenantNodePool
metadata:
  name: tenant01
spec:
  tenant: tenant01
  purpose: training
  adopt: true
  nodes: [{", ".join(_FIVE)}]
"""


def _pod(name: str, namespace: str, **spec: Any) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/none"}], **spec},
    }
    return json.dumps(body, indent=1) + "\n"


_DAEMON_SET = """\
apiVersion: v1
kind: Namespace
metadata:
  name: mars-operator
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: mars-gpu-device
  namespace: mars-operator
spec:
  selector:
    matchLabels: {app: mars-gpu-device}
  template:
    metadata:
      labels: {app: mars-gpu-device}
    spec:
      nodeSelector:
        mars-tech.com/gpu.installed: "true"
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
      - {name: main, image: registry.invalid/none}
"""


def _finds(code: int, *expected: str) -> steps.Check:
    def check(answer: Answer) -> str:
        if answer.code != code:
            return f"expected exit code {code}, got {answer.code}"
        missing = [text for text in expected if text not in answer.output]
        return f"expected in the output: {missing[0]!r}" if missing else ""

    return check


def _among(answer: Answer) -> str:
    return "" if answer.output.strip() in _FIVE else "expected one of the five nodes"


_REPAIR = ("tenantry", "nodes", "repair", "mars-operator/mars-gpu-device")

WALKTHROUGH = steps.Walkthrough(
    name="seed-000-nodes",
    title="Seed 000, chapter 6",
    tenants=("tenant01", "rival"),
    users={"bob": ("projectcapsule.dev",), "carol": ("projectcapsule.dev",)},
    chapters=(
        Chapter(
            title="6.1  Nodes that belong to a tenant",
            steps=(
                Step(
                    says="what an earlier tour left",
                    argv=("delete", "namespace/mars-operator", "tnp/tenant01", "--ignore-not-found"),
                    check=steps.succeeds,
                ),
                Step(
                    says="the five nodes that were given away by hand, as the document lists them",
                    argv=("tenantry", "nodes", "list"),
                    check=steps.equals(LISTING),
                    within=10,
                ),
                Step(
                    says="bob's tenant",
                    argv=("apply", "-f", "-"),
                    stdin=_tenant("tenant01", "bob"),
                    check=steps.succeeds,
                ),
                Step(
                    says="a pool takes them over",
                    argv=("apply", "-f", "-"),
                    stdin=_POOL,
                    check=steps.succeeds,
                ),
                Step(
                    says="all five are dedicated",
                    argv=("get", "tnp", "tenant01"),
                    check=steps.columns(
                        _POOL_HEADER,
                        ("tenant01", "tenant01", "exclusive", "5", "5", "True", "*", "True", "*",
                         "*"),
                    ),
                    within=20,
                ),
                Step(
                    says="bob creates a namespace",
                    who="bob",
                    argv=("create", "namespace", "tenant01-train"),
                    check=steps.succeeds,
                    within=5,
                ),
                Step(
                    says="which carries the node selector",
                    argv=("get", "namespace", "tenant01-train", "-o",
                          r"jsonpath={.metadata.annotations.scheduler\.alpha\.kubernetes\.io/node-selector}"),
                    check=steps.equals("node-pool=tenant01"),
                    within=10,
                ),
                Step(
                    says="and a pod, in which nothing about nodes is said",
                    who="bob",
                    argv=("create", "-f", "-"),
                    stdin=_pod("trainer", "tenant01-train"),
                    check=steps.succeeds,
                    within=10,
                ),
                Step(
                    says="it runs on one of the five",
                    argv=("get", "pod", "trainer", "-n", "tenant01-train", "-o",
                          "jsonpath={.spec.nodeName}"),
                    check=_among,
                    within=20,
                ),
            ),
        ),
        Chapter(
            title="6.1  Nobody else comes in",
            steps=(
                Step(
                    says="a second tenant, of carol",
                    argv=("apply", "-f", "-"),
                    stdin=_tenant("rival", "carol"),
                    check=steps.succeeds,
                ),
                Step(
                    says="and her namespace",
                    who="carol",
                    argv=("create", "namespace", "rival-lab"),
                    check=steps.succeeds,
                    within=5,
                ),
                Step(
                    says="she cannot tolerate everything",
                    who="carol",
                    argv=("create", "-f", "-"),
                    stdin=_pod("x", "rival-lab", tolerations=[{"operator": "Exists"}]),
                    check=steps.refused("operator Exists without a key"),
                    within=10,
                ),
                Step(
                    says="nor name a node",
                    who="carol",
                    argv=("create", "-f", "-"),
                    stdin=_pod("x", "rival-lab", nodeName="gpu-worker-25"),
                    check=steps.refused("only the scheduler places pods of tenants"),
                ),
            ),
        ),
        Chapter(
            title="6.2  The system's DaemonSets",
            steps=(
                Step(
                    says="the device plugin, which tolerates something else already",
                    argv=("apply", "-f", "-"),
                    stdin=_DAEMON_SET,
                    check=steps.succeeds,
                ),
                Step(
                    says="reaches 74 of the 79 nodes with GPUs, as in the document",
                    argv=("get", "daemonset", "mars-gpu-device", "-n", "mars-operator", "-o",
                          "jsonpath={.status.desiredNumberScheduled}"),
                    check=steps.equals("74"),
                    within=30,
                ),
                Step(
                    says="the audit names the five it is kept from",
                    argv=("tenantry", "nodes", "audit"),
                    check=_finds(3, "mars-operator/mars-gpu-device", "blocked on 5", ",".join(_FIVE)),
                ),
                Step(
                    says="a repair only says what it would do",
                    argv=(*_REPAIR, "--allow", "mars-operator"),
                    check=_finds(2, "appends tenant-dedicated:NoSchedule", "Nothing was changed"),
                ),
                Step(
                    says="until it is told to",
                    argv=(*_REPAIR, "--allow", "mars-operator", "--apply"),
                    check=steps.succeeds,
                ),
                Step(
                    says="it appends: the earlier toleration is still there",
                    argv=("get", "daemonset", "mars-gpu-device", "-n", "mars-operator", "-o",
                          _TOLERATIONS),
                    check=steps.equals("nvidia.com/gpu tenant-dedicated"),
                ),
                Step(
                    says="and now all 79 are reached",
                    argv=("get", "daemonset", "mars-gpu-device", "-n", "mars-operator", "-o",
                          "jsonpath={.status.desiredNumberScheduled}"),
                    check=steps.equals("79"),
                    within=30,
                ),
            ),
        ),
    ),
)  # fmt: skip
