"""`tenantry nodes ...` as people type it, with a real DaemonSet controller and scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

Object = dict[str, Any]


def tenantry(stage: Any, *args: str) -> tuple[int, str]:
    """Run the program; return its exit code and what it printed."""
    command = [sys.executable, "-m", "tenantry", "nodes", *args, "--kubeconfig"]
    done = subprocess.run(
        [*command, str(stage.plane.admin)], capture_output=True, text=True, timeout=90, check=False
    )
    return done.returncode, done.stdout + done.stderr


def daemon_set(stage: Any, namespace: str, name: str) -> Object:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": stage.nodes}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "affinity": {"nodeAffinity": required},
                    "containers": [{"name": "main", "image": "registry.invalid/none"}],
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                },
            },
        },
    }


def reached(stage: Any, namespace: str) -> list[str]:
    pods = stage.get("pods", "-n", namespace)["items"]
    return sorted(one["spec"].get("nodeName", "") for one in pods)


@pytest.mark.plane
def test_dedicate_list_release(stage: Any) -> None:
    team = stage.tenant()
    first, second, _ = stage.nodes
    code, text = tenantry(stage, "dedicate", first, second, "--tenant", team)
    assert code == 0, text
    code, text = tenantry(stage, "list")
    mine = [line for line in text.splitlines() if line.split("\t")[0] in stage.nodes]
    assert code == 0
    assert mine == [
        f"{node}\ttenant-dedicated={team}:NoSchedule" for node in sorted((first, second))
    ]
    assert text.splitlines() == sorted(text.splitlines())
    code, text = tenantry(stage, "list", "-o", "json")
    found = {one["name"]: one for one in json.loads(text)["items"]}
    assert found[first]["pool"] == team
    code, text = tenantry(stage, "dedicate", first, "--tenant", "nobody", "--pool", team)
    assert code == 1
    assert f'tenant: Invalid value: "nobody": pool "{team}" is of tenant "{team}"' in text
    code, text = tenantry(stage, "dedicate", "no-such-node", "--tenant", team)
    assert code == 1
    assert "there is no such node" in text
    code, text = tenantry(stage, "release", first, second)
    assert code == 0, text
    stage.eventually(lambda: not stage.taints(first) and not stage.taints(second), "released")


@pytest.mark.plane
def test_daemon_sets_are_found_repaired_kept_and_given_back(stage: Any) -> None:
    stage.tenant()
    place = stage.namespace(stage.name("gpu-operator"))
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    body = daemon_set(stage, place, "gpu-device")
    stage.kubectl("create", "-f", "-", stdin=body)
    closed, opened = sorted(stage.nodes[:2]), stage.nodes[2]
    stage.eventually(lambda: reached(stage, place) == [opened], "it is kept out")
    message = stage.eventually(
        lambda: (one := stage.condition(name, "Complete"))["status"] == "False" and one["message"],
        "the nodes are not complete",
    )
    assert message.startswith("Isolated-but-incomplete: 2 of 2 nodes")

    code, text = tenantry(stage, "audit", "-o", "json")
    (found,) = (one for one in json.loads(text)["daemonSets"] if one["namespace"] == place)
    assert code == 3
    assert (found["blocked"], found["severity"]) == (closed, "critical")
    assert (found["wanted"], found["eligible"]) == (3, 1)

    key = f"{place}/gpu-device"
    code, text = tenantry(stage, "repair", key)
    assert code == 2
    assert "not on the allow list" in text
    code, text = tenantry(stage, "repair", key, "--allow", place)
    assert "Nothing was changed" in text
    assert len(template(stage, place)["tolerations"]) == 1
    code, text = tenantry(stage, "repair", key, "--allow", place, "--apply")
    assert code == 0, text
    both = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "tenant-dedicated", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert template(stage, place)["tolerations"] == both
    stage.eventually(lambda: reached(stage, place) == sorted(stage.nodes), "it reaches all")
    stage.eventually(lambda: stage.condition(name, "Complete")["status"] == "True", "complete")
    assert stage.condition(name, "Exclusive")["status"] == "True"
    version = stage.get("daemonset", "gpu-device", "-n", place)["metadata"]["generation"]
    code, text = tenantry(stage, "repair", key, "--allow", place, "--apply")
    assert code == 0, text
    assert stage.get("daemonset", "gpu-device", "-n", place)["metadata"]["generation"] == version

    # An upgrade writes the list as the vendor has it; what was repaired is repaired again.
    change = json.dumps({"spec": {"template": {"spec": {"tolerations": both[:1]}}}})
    stage.kubectl("patch", "daemonset", "gpu-device", "-n", place, "--type=merge", "-p", change)
    stage.eventually(lambda: template(stage, place)["tolerations"] == both, "healed")

    code, text = tenantry(stage, "repair", key, "--undo", "--apply")
    assert code == 0, text
    assert template(stage, place)["tolerations"] == both[:1]


def template(stage: Any, namespace: str) -> Object:
    found: Object = stage.get("daemonset", "gpu-device", "-n", namespace)["spec"]["template"][
        "spec"
    ]
    return found


@pytest.mark.plane
def test_a_daemon_set_of_a_tenant_is_not_repaired(stage: Any) -> None:
    other = stage.tenant("other")
    stage.tenant()
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    stage.kubectl("create", "-f", "-", stdin=daemon_set(stage, other, "gpu-device"), user=other)
    key = f"{other}/gpu-device"
    code, text = tenantry(
        stage, "repair", key, "--allow", other, "--apply", "--patch-anyway", "-o", "json"
    )
    (one,) = json.loads(text)["items"]
    assert (code, one["action"]) == (2, "reported")
    assert f"it is tenant {other}'s" in one["reason"]
    assert len(template(stage, other)["tolerations"]) == 1


@pytest.mark.plane
def test_a_settled_pool_writes_nothing(stage: Any) -> None:
    stage.tenant()
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    stage.eventually(lambda: stage.condition(name, "Complete")["status"] == "True", "complete")
    before = stage.get("tnp", name)["metadata"]["resourceVersion"]
    records = [managed(stage, node) for node in stage.nodes[:2]]
    # Another pool comes and goes, which wakes every controller.
    rival = stage.pool("rival", nodes=[stage.nodes[2]])
    stage.eventually(lambda: stage.states(rival) == {"dedicated"}, "dedicated")
    stage.kubectl("delete", "tnp", rival)
    stage.eventually(lambda: not stage.taints(stage.nodes[2]), "released")
    assert stage.get("tnp", name)["metadata"]["resourceVersion"] == before
    assert [managed(stage, node) for node in stage.nodes[:2]] == records


def managed(stage: Any, name: str) -> list[Object]:
    """Return what we ever wrote on a node, with the times."""
    found = stage.get("node", name, "--show-managed-fields")["metadata"]["managedFields"]
    ours = [one for one in found if one["manager"] == "tenantry/nodes"]
    assert ours
    return ours
