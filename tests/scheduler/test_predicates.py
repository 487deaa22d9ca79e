"""Filters on nodes, with kube-scheduler's meanings."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.scheduler.engine import specs
from tenantry.scheduler.scenarios import world

R = specs.Requirement


def terms(*requirements: specs.Requirement) -> specs.Constraints:
    return specs.Constraints(affinity=(requirements,))


def placed(constraints: specs.Constraints, **more: Any) -> str:
    made = world.World()
    made.node("a", labels={"zone": "east", "rank": "3"})
    made.node("b", labels={"zone": "west", "rank": "7", "fast": ""})
    taint = specs.Taint(key="team", value="x", effect="NoSchedule")
    soft = specs.Taint(key="soft", effect="PreferNoSchedule")
    made.node("c", labels={"zone": "north"}, taints=(taint, soft))
    made.node("d", labels={"zone": "south"}, usable=False)
    made.queue("q", -1)
    made.job("j", "q", constraints=constraints, **more)
    made.run()
    return made.where().get("j-0", "")


TABLE = {
    "none": (specs.FREE, "a"),
    "selector": (specs.Constraints(selector=(("zone", "west"),)), "b"),
    "selector of nothing": (specs.Constraints(selector=(("zone", "moon"),)), ""),
    "In": (terms(R(key="zone", operator="In", values=("west", "south"))), "b"),
    "NotIn": (terms(R(key="zone", operator="NotIn", values=("east",))), "b"),
    "Exists": (terms(R(key="fast", operator="Exists")), "b"),
    "DoesNotExist": (terms(R(key="rank", operator="DoesNotExist")), ""),
    "Gt": (terms(R(key="rank", operator="Gt", values=("5",))), "b"),
    "Lt": (terms(R(key="rank", operator="Lt", values=("5",))), "a"),
    "by name": (terms(R(key="metadata.name", operator="In", values=("b",))), "b"),
    "nodeName": (specs.Constraints(node_name="b"), "b"),
    "nominated": (specs.Constraints(nominated="b"), "b"),
    "tainted": (specs.Constraints(selector=(("zone", "north"),)), ""),
    "cordoned": (specs.Constraints(selector=(("zone", "south"),)), ""),
    "tolerated": (
        specs.Constraints(
            selector=(("zone", "north"),),
            tolerations=(specs.Toleration(key="team", value="x", effect="NoSchedule"),),
        ),
        "c",
    ),
    "everything tolerated": (
        specs.Constraints(
            selector=(("zone", "north"),), tolerations=(specs.Toleration(operator="Exists"),)
        ),
        "c",
    ),
    "another value": (
        specs.Constraints(
            selector=(("zone", "north"),), tolerations=(specs.Toleration(key="team", value="y"),)
        ),
        "",
    ),
}


@pytest.mark.parametrize(("constraints", "node"), TABLE.values(), ids=TABLE)
def test_nodes(constraints: specs.Constraints, node: str) -> None:
    assert placed(constraints) == node


def test_ports_keep_pods_apart() -> None:
    made = world.World()
    made.node("a")
    made.queue("q", -1)
    for name, port in (("one", 80), ("two", 80), ("three", 81)):
        made.job(name, "q", constraints=specs.Constraints(ports=(specs.HostPort("TCP", port),)))
    made.run()
    assert set(made.where()) == {"one-0", "three-0"}


APP = (R(key="app", operator="In", values=("db",)),)


def test_anti_affinity_spreads_and_works_in_both_directions() -> None:
    made = world.World()
    for name in ("a", "b"):
        made.node(name)
    made.queue("q", -1)
    apart = specs.AffinityTerm(topology_key="kubernetes.io/hostname", selector=APP)
    alone = specs.Constraints(pod_anti_affinity=(apart,))
    for index in range(3):
        made.job(f"db{index}", "q", labels={"app": "db"}, constraints=alone)
    made.job("plain", "q", labels={"app": "db"}, created=2.0)
    made.run()
    assert sorted(made.where().values()) == ["a", "b"]
    assert "plain-0" not in made.where()


def test_affinity_goes_where_others_are_and_the_first_may_go_anywhere() -> None:
    made = world.World()
    made.node("a", labels={"zone": "east"}, gpus=1)
    made.node("b", labels={"zone": "west"}, gpus=2)
    made.node("c", labels={"zone": "west"}, gpus=2)
    made.queue("q", -1)
    near = specs.AffinityTerm(topology_key="zone", selector=APP)
    together = specs.Constraints(pod_affinity=(near,))
    for index in range(3):
        made.job(
            f"db{index}", "q", labels={"app": "db"}, gpus=1 if index else 2, constraints=together
        )
    made.run()
    assert set(made.where().values()) == {"b", "c"}
    assert len(made.where()) == 3


def test_preferred_pod_affinity_only_prefers() -> None:
    made = world.World()
    made.node("a", gpus=1)
    made.node("b", gpus=4)
    made.queue("q", -1)
    made.job("db", "q", on="b", labels={"app": "db"})
    near = specs.AffinityTerm(topology_key="kubernetes.io/hostname", selector=APP, weight=5)
    made.job("near", "q", constraints=specs.Constraints(pod_affinity=(near,)))
    made.job("far", "q", constraints=specs.Constraints(pod_anti_affinity=(near,)))
    made.run()
    assert (made.where()["near-0"], made.where()["far-0"]) == ("b", "a")


def test_topology_spread() -> None:
    made = world.World()
    for name, zone in (("a", "x"), ("b", "x"), ("c", "y")):
        made.node(name, labels={"zone": zone})
    made.queue("q", -1)
    rule = specs.Spread(topology_key="zone", max_skew=1, selector=APP)
    for index in range(5):
        made.job(
            f"db{index}", "q", labels={"app": "db"}, constraints=specs.Constraints(spread=(rule,))
        )
    made.run()
    in_y = sum(node == "c" for node in made.where().values())
    assert (len(made.where()), in_y) in {(5, 2), (5, 3)}


def test_config_maps_and_volumes_must_exist() -> None:
    made = world.World()
    made.node("a")
    made.node("b")
    made.queue("q", -1)
    made.seen.put_config_maps([("ns", "there")])
    made.seen.put_volumes({("ns", "disk"): frozenset({"b"}), ("ns", "net"): None})
    for name, constraints in {
        "map": specs.Constraints(config_maps=("there",)),
        "nomap": specs.Constraints(config_maps=("gone",)),
        "disk": specs.Constraints(volumes=("disk",)),
        "net": specs.Constraints(volumes=("net",)),
        "novolume": specs.Constraints(volumes=("gone",)),
    }.items():
        made.job(name, "q", constraints=constraints)
    made.run()
    assert set(made.where()) == {"map-0", "disk-0", "net-0"}
    assert made.where()["disk-0"] == "b"
    reason = made.engine.explain(("ns", "novolume"))[0]
    assert "persistentvolumeclaim ns/gone not found" in reason.message


def test_pod_count() -> None:
    made = world.World()
    made.node("a", pods=2)
    made.queue("q", -1)
    for index in range(3):
        made.job(f"j{index}", "q")
    made.run()
    assert len(made.where()) == 2
    assert "node(s) pod number exceeded" in made.engine.explain(("ns", "j2"))[0].message


def test_a_new_shared_device_needs_a_slot_for_its_holder() -> None:
    made = world.World()
    made.node("a", pods=3)
    made.queue("q", -1)
    made.job("r", "q", on="a", gpus=0.5, groups=("g",))
    made.job("r2", "q", on="a", gpus=0.5, groups=("g",))
    made.job("j", "q", gpus=0.5)
    made.run()
    assert "j-0" not in made.where()


def test_explanation_counts_nodes_by_reason() -> None:
    made = world.World()
    made.node("small", gpus=1)
    made.node("full", gpus=2)
    made.node("other", gpus=4, taints=(specs.Taint(key="x"),))
    made.queue("q", -1)
    made.job("r", "q", on="full", gpus=2, priority=100)
    made.job("j", "q", gpus=2)
    made.run()
    reason = made.engine.explain(("ns", "j"))[0]
    assert reason.details["nodes"] == {
        "node(s) had untolerated taint": 1,
        "node(s) didn't have enough resources: GPUs": 2,
    }
    assert reason.remedy == "would fit with 2 GPUs on one node (at most 1 GPUs free)"


def test_explanation_of_a_gang() -> None:
    made = world.World()
    made.node("n", gpus=3)
    made.queue("q", -1)
    made.job("gang", "q", pods=5)
    made.run()
    reason = made.engine.explain(("ns", "gang"))[0]
    assert reason.message.startswith(
        "Resources were found for 3 pods while 5 are required for gang scheduling."
    )
