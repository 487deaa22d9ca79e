"""The DaemonSets of specs/governance 10.1 with a real controller and scheduler; `tenantry nodes`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tenantry.local import nodes as simulated
from tenantry.local import testing

from . import conftest, seed
from .stage import POOL, SELECTOR, Api, Object, Stage, metadata, workload

pytestmark = pytest.mark.plane

#: What the twelve nodes make of the listing's counts of desired pods.
OF_TWELVE = {102: 12, 97: 7, 74: 5, 75: 9}
ADDED = {"key": "tenant-dedicated", "operator": "Exists", "effect": "NoSchedule"}


def audited(stage: Stage) -> tuple[int, dict[str, Object]]:
    """Return the exit code of an audit, and what it says of each DaemonSet."""
    code, out, _ = stage.tenantry("audit", "-o", "json")
    return code, {f"{one['namespace']}/{one['name']}": one for one in json.loads(out)["daemonSets"]}


def tolerations(stage: Stage, namespace: str, name: str) -> list[Object]:
    spec = stage.get("DaemonSet", name, namespace)["spec"]["template"]["spec"]
    found: list[Object] = spec.get("tolerations") or []
    return found


def test_the_documents_daemon_sets_from_blocked_to_everywhere(bare: Stage) -> None:
    """On twelve of the document's nodes, among those of other tests."""
    code, out, _ = bare.tenantry("list")
    assert code == 0
    # Sorted, so that what other tests have comes after: their nodes are called node-<number>.
    assert out.encode().startswith((seed.FIXTURES / "expected-dedicated-nodes.txt").read_bytes())
    from_blocked_to_everywhere(bare, of=OF_TWELVE, only={"seed": "000"})


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_whole_listing_on_all_nodes_of_the_document(
    new_plane: Callable[..., testing.Plane],
) -> None:
    plane = new_plane(**conftest.tenantry_on(map(simulated.completed, seed.nodes())))
    server = Api(plane)
    stage = Stage(plane, [server], "whole")
    _, out, _ = stage.tenantry("list")
    assert out.encode() == (seed.FIXTURES / "expected-dedicated-nodes.txt").read_bytes()
    from_blocked_to_everywhere(stage, of={count: count for count in OF_TWELVE}, only={})
    server.close()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_tour_of_chapter_six(new_plane: Callable[..., testing.Plane]) -> None:
    plane = new_plane(**conftest.tenantry_on(map(simulated.completed, seed.nodes())))
    command = [sys.executable, "-m", "tenantry", "tour", "000-nodes", "--kubeconfig"]
    done = subprocess.run(
        [*command, str(plane.admin)],
        capture_output=True, text=True, timeout=300, check=False, env=plane.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "[WRONG]" not in done.stdout


def from_blocked_to_everywhere(stage: Stage, *, of: dict[int, int], only: dict[str, str]) -> None:
    """Create the listing's DaemonSets, find those that are kept out, repair them, and see.

    :param of: desired pods in the listing -> on the nodes that are there
    :param only: a label of these nodes
    """
    everywhere, gpus = of[102], of[74] + len(seed.FIVE)
    after = {**of, 97: everywhere, 74: gpus}
    stage.prefix = "tenant01"
    owners = {"owners": [{"kind": "User", "name": "bob"}]}
    head = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant"}
    stage.create({**head, "metadata": {"name": "tenant01"}, "spec": owners})
    code, out, err = stage.tenantry(
        "dedicate", *seed.FIVE, "--tenant", "tenant01", "--pool", "tenant01-training", "--adopt"
    )
    assert code == 0, out + err

    rows = {f"{namespace}/{name}": desired for namespace, name, desired in seed.rows()}
    places = sorted({key.partition("/")[0] for key in rows} - {"kube-system"})
    for place in places:
        stage.namespace(place)
    for key in rows:
        namespace, _, name = key.partition("/")
        own = seed.TEMPLATES[name].get("nodeSelector", {})
        body = seed.daemon_set(namespace, name, nodeSelector={**own, **only})
        stage.create(body)

    def settled(expected: dict[int, int]) -> bool:
        for key, desired in rows.items():
            namespace, _, name = key.partition("/")
            found = stage.get("DaemonSet", name, namespace)
            status, generation = found["status"], found["metadata"]["generation"]
            # A changed template has its pods replaced, which begins a moment later.
            ready = {status.get("numberReady"), status.get("updatedNumberScheduled")}
            if (ready, status.get("observedGeneration")) != ({expected[desired]}, generation):
                return False
        return True

    stage.eventually(lambda: settled(of), "as in the listing", seconds=240)
    code, found = audited(stage)
    assert code == 3
    for key, desired in rows.items():
        assert found[key]["eligible"] == of[desired], key
        name = key.partition("/")[2]
        blocked = list(seed.FIVE) if name in seed.BLOCKED else []
        assert found[key]["blocked"] == blocked, key
        assert found[key]["severity"] == seed.BLOCKED.get(name, "ok"), key

    before = {key: tolerations(stage, *key.split("/")) for key in rows}
    allowed = [word for place in [*places, "kube-system"] for word in ("--allow", place)]
    code, out, _ = stage.tenantry("repair", *rows, *allowed)
    assert (code, "Nothing was changed" in out) == (2, True)
    assert {key: tolerations(stage, *key.split("/")) for key in rows} == before
    code, out, err = stage.tenantry("repair", *rows, *allowed, "--apply")
    assert code == 0, out + err
    for key in rows:
        more = [ADDED] if key.partition("/")[2] in seed.BLOCKED else []
        assert tolerations(stage, *key.split("/")) == [*before[key], *more], key
    stage.eventually(lambda: settled(after), "all reach the five", seconds=240)
    _, found = audited(stage)
    assert {key: found[key]["verdict"] for key in rows} == dict.fromkeys(rows, "ok")
    name = "tenant01-training"
    stage.eventually(lambda: stage.condition(name, "Complete")["status"] == "True", "complete")
    assert stage.condition(name, "Exclusive")["status"] == "True"
    # A second run finds nothing to do.
    code, out, _ = stage.tenantry("repair", *rows, *allowed, "--apply", "-o", "json")
    assert {one["action"] for one in json.loads(out)["items"]} == {"none"}


def daemon_set(stage: Stage, namespace: str, name: str, **more: Any) -> Object:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": stage.nodes}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    made = workload(
        "DaemonSet", name, namespace,
        affinity={"nodeAffinity": required},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
    )  # fmt: skip
    made["metadata"].update(more)
    return made


def test_repairs_are_shown_kept_and_given_back(stage: Stage) -> None:
    stage.tenant()
    place = stage.namespace(stage.name("gpu-operator"))
    name = stage.dedicated()
    stage.create(daemon_set(stage, place, "gpu-device"))
    closed, opened = sorted(stage.nodes[:2]), stage.nodes[2]
    stage.eventually(lambda: stage.reached(place) == [opened], "it is kept out")
    message = stage.eventually(
        lambda: (one := stage.condition(name, "Complete"))["status"] == "False" and one["message"],
        "the nodes are not complete",
    )
    assert message.startswith("Isolated-but-incomplete: 2 of 2 nodes")
    assert stage.metrics()[f'tenantry_node_pool_complete_nodes{{pool="{name}"}}'] == 0

    key = f"{place}/gpu-device"
    code, found = audited(stage)
    assert code == 3
    assert (found[key]["blocked"], found[key]["severity"]) == (closed, "critical")
    code, out, _ = stage.tenantry("repair", key)
    assert (code, "not on the allow list" in out) == (2, True)
    code, out, err = stage.tenantry("repair", key, "--allow", place, "--apply")
    assert code == 0, out + err
    earlier = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert tolerations(stage, place, "gpu-device") == [earlier, ADDED]
    stage.eventually(lambda: stage.reached(place) == sorted(stage.nodes), "it reaches all")
    stage.eventually(lambda: stage.condition(name, "Complete")["status"] == "True", "complete")
    version = stage.get("DaemonSet", "gpu-device", place)["metadata"]["generation"]
    code, out, err = stage.tenantry("repair", key, "--allow", place, "--apply")
    assert code == 0, out + err
    assert stage.get("DaemonSet", "gpu-device", place)["metadata"]["generation"] == version

    # An upgrade writes the list as the vendor has it; what was repaired is repaired again.
    change = {"spec": {"template": {"spec": {"tolerations": [earlier]}}}}
    stage.patch("DaemonSet", "gpu-device", place, change)
    stage.eventually(lambda: tolerations(stage, place, "gpu-device") == [earlier, ADDED], "healed")
    code, out, err = stage.tenantry("repair", key, "--undo", "--apply")
    assert code == 0, out + err
    assert tolerations(stage, place, "gpu-device") == [earlier]


def test_what_a_pool_allows_is_repaired_by_the_controller(stage: Stage) -> None:
    stage.tenant()
    place = stage.namespace(stage.name("monitoring"))
    stage.create(daemon_set(stage, place, "own", labels={"app.kubernetes.io/managed-by": "Helm"}))
    stage.create(daemon_set(stage, place, "plain"))
    stage.dedicated(repair={"allow": [place]})
    stage.eventually(lambda: ADDED in tolerations(stage, place, "plain"), "repaired")
    code, out, _ = stage.tenantry("repair", f"{place}/own", "-o", "json")
    (one,) = json.loads(out)["items"]
    assert (code, one["action"]) == (2, "reported")
    assert "a patch would be undone by Helm" in one["reason"]
    assert ADDED not in tolerations(stage, place, "own")


def test_a_daemon_set_of_a_tenant_is_not_repaired(stage: Stage) -> None:
    other = stage.tenant("other")
    stage.tenant()
    early = daemon_set(stage, other, "early-gpu-device")
    # Its pods stay off the nodes that the pool takes: whose pods are there first is luck.
    early["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": stage.nodes[2]}
    stage.create(early, user=other)
    stage.dedicated()
    stage.create(daemon_set(stage, other, "gpu-device"), user=other)
    for name in ("early-gpu-device", "gpu-device"):
        code, out, _ = stage.tenantry(
            "repair", f"{other}/{name}", "--allow", other, "--apply", "--patch-anyway", "-o", "json"
        )
        (one,) = json.loads(out)["items"]
        assert (code, one["action"]) == (2, "reported")
        assert f"it is tenant {other}'s" in one["reason"]
        assert ADDED not in tolerations(stage, other, name)


def test_a_platform_namespace_with_the_annotation_is_told(stage: Stage) -> None:
    stage.tenant()
    stage.dedicated()
    team = stage.name("team")
    place = stage.namespace(stage.name("agents"), **{SELECTOR: f"node-pool={team}"})
    made = daemon_set(stage, place, "agent")
    made["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    stage.create(made)
    # Its controller does not know the annotation: it wants three, and one waits for ever.
    stage.eventually(lambda: stage.reached(place) == sorted(stage.nodes[:2]), "two of three run")
    assert stage.get("DaemonSet", "agent", place)["status"]["desiredNumberScheduled"] == 3
    _, out, _ = stage.tenantry("audit")
    assert f"namespace {place} has a node selector" in out
    empty = {"metadata": {"annotations": {SELECTOR: ""}}}
    stage.patch("Namespace", place, "", empty)
    stage.eventually(
        lambda: place not in json.loads(stage.tenantry("audit", "-o", "json")[1])[
            "annotatedNamespaces"
        ],
        "mended",
    )  # fmt: skip


def test_dedicate_list_release(stage: Stage) -> None:
    team = stage.tenant()
    first, second, _ = stage.nodes
    code, out, err = stage.tenantry("dedicate", first, second, "--tenant", team, "-o", "json")
    assert code == 0, out + err
    assert {one["state"] for one in json.loads(out)["nodes"]} == {"dedicated"}
    code, out, _ = stage.tenantry("list")
    mine = [line for line in out.splitlines() if line.split("\t")[0] in stage.nodes]
    assert code == 0
    assert mine == [
        f"{node}\ttenant-dedicated={team}:NoSchedule" for node in sorted((first, second))
    ]
    assert out.splitlines() == sorted(out.splitlines())
    _, out, _ = stage.tenantry("list", "-o", "json")
    assert {one["name"]: one["pool"] for one in json.loads(out)["items"]}[first] == team
    for words, message in (
        (
            ("dedicate", first, "--tenant", "nobody", "--pool", team),
            f'tenant: Invalid value: "nobody": pool "{team}" is of tenant "{team}"',
        ),
        (("dedicate", "no-such-node", "--tenant", team), "there is no such node"),
        (("release", "no-such-node"), "no TenantNodePool names it"),
        (("list", "-o", "xml"), "'xml' is not one of json, yaml, name or jsonpath=TEMPLATE"),
    ):
        code, _, err = stage.tenantry(*words)
        assert (code in (1, 2), message in err) == (True, True), err
    nobody = ("--tenant", "nobody", "--pool", stage.name("nobody"), "--timeout", "2")
    code, out, _ = stage.tenantry("dedicate", stage.nodes[2], *nobody, "-o", "json")
    (entry,) = json.loads(out)["nodes"]
    assert (code, entry["reason"]) == (2, "NoSuchTenant")
    assert entry["message"] == 'tenant "nobody" does not exist'
    code, out, _ = stage.tenantry("release", second, "-o", "json")
    assert (code, json.loads(out)) == (0, {"nodes": [second], "pools": [team]})
    code, out, _ = stage.tenantry("release", first)
    assert (code, out) == (0, f"released {first} from {team}\n")
    stage.eventually(lambda: not stage.taints(first) and not stage.taints(second), "released")
    assert team not in {one["metadata"]["name"] for one in stage.items(POOL)}


def mirror(number: int, plugins: str) -> Object:
    """Return the mirror pod of a master as a kubelet of kubeadm's makes it."""
    flags = (f"--advertise-address=10.0.0.{number}", f"--enable-admission-plugins={plugins}")
    container = {
        "name": "kube-apiserver",
        "image": "registry.invalid/kube-apiserver",
        "command": ["kube-apiserver", *flags],
    }
    hashes = {"kubernetes.io/config.mirror": str(number), "kubernetes.io/config.hash": str(number)}
    labels = {"component": "kube-apiserver", "tier": "control-plane"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            f"kube-apiserver-master-0{number}", "kube-system", labels=labels, annotations=hashes
        ),
        "spec": {"nodeName": "node-1", "containers": [container]},
    }


def test_three_masters_one_of_which_is_odd(bare: Stage) -> None:
    stage = bare
    for number, plugins in ((1, "A,PodNodeSelector"), (2, "PodNodeSelector,A"), (3, "A")):
        stage.create(mirror(number, plugins))
    names = [f"kube-apiserver-master-0{number}" for number in (1, 2, 3)]

    def found(*more: str) -> tuple[int, list[Object]]:
        code, out, _ = stage.tenantry("check-apiservers", "-o", "json", *more)
        return code, [one for one in json.loads(out)["findings"] if one["severity"] == "error"]

    def ready() -> bool:
        # A node that a busy machine does not let report in time takes this from its pods for a while.
        pods = [stage.get("Pod", name, "kube-system")["status"] for name in names]
        return all(
            [one["status"] for one in pod.get("conditions") or () if one["type"] == "Ready"]
            == ["True"]
            for pod in pods
        )

    stage.eventually(ready, "the masters run")
    described = stage.plane.plan
    if described.addresses:
        # Each server puts itself on the list, a moment after it is ready.
        stage.eventually(
            lambda: (
                sorted(
                    endpoint["addresses"][0]
                    for one in stage.items("EndpointSlice", "default")
                    for endpoint in one["endpoints"]
                )
                == sorted(described.addresses)
            ),
            "the list of three",
        )
        assert len(set(described.api_ports)) == 1
    code, wrong = found()
    assert code == 3
    # By their command lines, and (with addresses of their own) by what they do.
    odd = f"{described.addresses[2]}:{described.api_ports[2]}" if described.addresses else ""
    assert {one["server"] for one in wrong} == {names[2], odd, ""}
    assert any("PodNodeSelector is not enabled" in one["message"] for one in wrong)
    if odd:
        assert any("PodNodeSelector has no effect there" in one["message"] for one in wrong)
    _, later = found("--since", "2099-01-01T00:00:00Z")
    assert {one["server"] for one in later if "before the change" in one["message"]} == set(names)
    code, _, err = stage.tenantry("check-apiservers", "--since", "yesterday")
    assert (code, "a time such as" in err) == (1, True)
    # One that does not come back after the change.
    crash = {
        "name": "kube-apiserver",
        "image": "registry.invalid/kube-apiserver",
        "imageID": "",
        "ready": False,
        "restartCount": 7,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    stage.patch(
        "Pod", names[1], "kube-system", {"status": {"containerStatuses": [crash]}}, sub="status"
    )
    _, wrong = found()
    assert "does not run: CrashLoopBackOff (7 restarts)" in [
        one["message"] for one in wrong if one["server"] == names[1]
    ]
    # The namespace in which they were tried does not stay.
    left = [one for one in stage.items("Namespace") if "tenantry-check" in one["metadata"]["name"]]
    assert all("deletionTimestamp" in one["metadata"] for one in left)
