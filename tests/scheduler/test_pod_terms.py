"""Constraints that look at other pods, beside a direct reading of their rules."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tenantry.scheduler.engine import matching, specs, unstart
from tenantry.scheduler.scenarios import world
from tenantry.scheduler.translate import pods

R = specs.Requirement
ZONE, HOST = "zone", "kubernetes.io/hostname"


def app(*names: str) -> tuple[specs.Requirement, ...]:
    return (R(key="app", operator="In", values=names),)


def nodes(**zones: str) -> world.World:
    made = world.World()
    made.queue("q", -1)
    for name, zone in zones.items():
        made.node(name, labels={ZONE: zone} if zone else {})
    return made


def test_others_repel_by_the_labels_of_each_pod() -> None:
    """Pods that ask for the same are one shape; what repels them is not the same for all."""
    made = nodes(a="x")
    apart = specs.AffinityTerm(topology_key=HOST, selector=app("web"))
    made.job(
        "db",
        "q",
        on="a",
        labels={"app": "db"},
        constraints=specs.Constraints(pod_anti_affinity=(apart,)),
    )
    for number, name in enumerate(("web", "other", "third")):
        made.job(name, "q", labels={"app": name}, created=float(number))
    made.run()
    assert set(made.where()) == {"db-0", "other-0", "third-0"}
    reason = made.engine.explain(("ns", "web"))[0]
    assert reason.details["nodes"] == {"node(s) didn't match pod affinity/anti-affinity rules": 1}


def test_one_pod_must_meet_every_affinity_term() -> None:
    """Pods count only when all terms mean them, as in kube-scheduler."""
    made = nodes(a="x", b="y")
    made.job("one", "q", on="a", labels={"app": "one"})
    made.job("both", "q", on="b", labels={"app": "one", "tier": "t"})
    near = (
        specs.AffinityTerm(topology_key=ZONE, selector=app("one")),
        specs.AffinityTerm(topology_key=HOST, selector=(R(key="tier", operator="Exists"),)),
    )
    made.job("j", "q", constraints=specs.Constraints(pod_affinity=near))
    made.run()
    assert made.where()["j-0"] == "b"


@pytest.mark.parametrize(
    ("fields", "started"),
    [
        ({}, False),
        ({"namespaces": ("other",)}, True),
        ({"of_namespaces": ()}, True),
        ({"of_namespaces": (R(key="team", operator="In", values=("x",)),)}, True),
        ({"of_namespaces": (R(key="team", operator="In", values=("y",)),)}, False),
        ({"of_namespaces": app("x"), "namespaces": ("other",)}, True),
    ],
)
def test_namespaces_of_terms(fields: dict[str, Any], started: bool) -> None:
    made = nodes(a="x")
    made.seen.put_namespace("other", {"team": "x"})
    made.job("there", "q", on="a", labels={"app": "db"}, namespace="other")
    near = specs.AffinityTerm(topology_key=HOST, selector=app("db"), **fields)
    made.job("j", "q", constraints=specs.Constraints(pod_affinity=(near,)))
    made.run()
    assert ("j-0" in made.where()) is started


def test_host_ports_on_different_addresses() -> None:
    for address, other, together in (
        ("10.0.0.1", "10.0.0.2", True),
        ("10.0.0.1", "", False),
        ("10.0.0.1", "10.0.0.1", False),
    ):
        made = nodes(a="x")
        for name, ip in (("one", address), ("two", other)):
            port = specs.HostPort("TCP", 80, ip)
            made.job(name, "q", constraints=specs.Constraints(ports=(port,)))
        made.run()
        assert (len(made.where()) == 2) is together


def test_terms_of_running_pods_prefer_too() -> None:
    """A pod that would like to be near `web` draws web pods to itself."""
    made = nodes(a="x", b="y")
    near = specs.AffinityTerm(topology_key=ZONE, selector=app("web"), weight=5)
    made.job("near", "q", on="b", constraints=specs.Constraints(pod_affinity=(near,)))
    made.job("packed", "q", on="a", gpus=6)
    made.job("web", "q", labels={"app": "web"})
    made.job("plain", "q")
    made.run()
    assert (made.where()["web-0"], made.where()["plain-0"]) == ("b", "a")


def test_spread_counts_only_where_the_pod_could_be() -> None:
    rule = specs.Spread(topology_key=ZONE, max_skew=1, selector=app("w"))
    honoured = specs.Spread(topology_key=ZONE, max_skew=1, selector=app("w"), by_taints=True)
    ignoring = specs.Spread(topology_key=ZONE, max_skew=1, selector=app("w"), by_affinity=False)
    for spread, selector, started in (
        (rule, (), 1),  # zone y stays empty behind its taint
        (honoured, (), 3),
        (rule, ((ZONE, "x"),), 3),
        (ignoring, ((ZONE, "x"),), 1),
    ):
        made = nodes(a="x")
        made.node("b", labels={ZONE: "y"}, taints=(specs.Taint(key="k"),))
        wanted = specs.Constraints(spread=(spread,), selector=selector)
        made.job("j", "q", pods=3, minimum=1, labels={"app": "w"}, constraints=wanted)
        made.run()
        assert len(made.where()) == started, (spread, selector)


def test_manifest_of_terms() -> None:
    """What is missing in a selector means nothing; what is empty means everything."""
    spec = {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "a"},
                    {"topologyKey": "b", "labelSelector": {}, "namespaceSelector": {}},
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "z",
                "maxSkew": 2,
                "labelSelector": {"matchLabels": {"app": "w"}},
                "matchLabelKeys": ["pod-template-hash", "absent"],
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            }
        ],
        "containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
        "initContainers": [
            {"restartPolicy": "Always", "ports": [{"hostPort": 81, "hostIP": "0.0.0.0"}]},
            {"ports": [{"hostPort": 82}]},
        ],
    }
    labels = {"app": "w", "pod-template-hash": "1"}
    found = pods.Translator().constraints(spec, {}, {}, labels)
    nothing, everything = found.pod_affinity
    anybody = specs.Task(namespace="n", name="t", uid="t", job=None, labels=labels)
    assert not matching.selects(nothing, "n", anybody)
    assert matching.selects(everything, "elsewhere", anybody)
    assert found.spread == (
        specs.Spread(
            topology_key="z",
            max_skew=2,
            selector=(*app("w"), R(key="pod-template-hash", operator="In", values=("1",))),
            by_affinity=False,
            by_taints=True,
        ),
    )
    assert found.ports == (specs.HostPort("TCP", 81), specs.HostPort("TCP", 80, "10.0.0.1"))


def _broken(made: world.World, fresh: set[str]) -> list[str]:
    """Return which rules the placed pods break, judged pod by pod; affinity of fresh ones."""
    state = made.session.state
    spec_of = {node.name: node for node in state.nodes.specs}
    tasks = {task.name: task for task in state.tasks if task is not None}
    where = {name: spec_of[node] for name, node in made.where().items()}

    def domain(name: str, key: str) -> str | None:
        return where[name].labels.get(key)

    problems = []
    for name in where:
        task = tasks[name]
        others = [other for other in where if other != name]
        for term in task.constraints.pod_anti_affinity:
            near = [
                o for o in others if domain(o, term.topology_key) == domain(name, term.topology_key)
            ]
            if domain(name, term.topology_key) is not None and any(
                matching.selects(term, task.namespace, tasks[o]) for o in near
            ):
                problems.append(f"{name} is near what it repels")
        for term in task.constraints.pod_affinity if name in fresh else ():
            near = [
                o for o in where if domain(o, term.topology_key) == domain(name, term.topology_key)
            ]
            if not any(matching.selects(term, task.namespace, tasks[o]) for o in near):
                problems.append(f"{name} is far from what it needs")
    return problems


def _left_without(made: world.World, name: str) -> set[str]:
    """Return who still starts once one start of the cycle is taken back."""
    decided = made.run()
    assert name in {bind.task.name for bind in decided.binds}
    session = made.session
    tasks = session.state.tasks
    row = next(row for row, task in enumerate(tasks) if task is not None and task.name == name)
    unstart.task(session, row, ("ns", "other"))
    for _ in unstart.collapse(session, ("ns", "other")):
        pass
    started = {bind.task.name for bind in decided.binds}
    assert started == set(made.where())
    return started


def test_who_needs_a_pod_does_not_start_when_that_one_does_not() -> None:
    """Nor does the rest of its gang, nor who needs it in turn; a group's own first pod may stay."""
    made = nodes(a="x", b="y")

    def near(name: str) -> specs.Constraints:
        return specs.Constraints(
            pod_affinity=(specs.AffinityTerm(topology_key=ZONE, selector=app(name)),)
        )

    made.job("one", "q", labels={"app": "one"}, created=1.0)
    made.job("two", "q", pods=2, labels={"app": "two"}, constraints=near("one"), created=2.0)
    made.job("three", "q", constraints=near("two"), created=3.0)
    made.job("own", "q", labels={"app": "own"}, constraints=near("own"), created=4.0)
    made.job("any", "q", created=5.0)
    assert _left_without(made, "one-0") == {"own-0", "any-0"}
    reasons = made.session.decisions.reasons["ns", "three"]
    assert [reason.code for reason in reasons] == ["Outranked"]


def test_pods_stay_spread_when_one_of_them_does_not_start() -> None:
    made = nodes(a="x", b="y")
    rule = specs.Constraints(
        spread=(specs.Spread(topology_key=ZONE, max_skew=1, selector=app("w")),)
    )
    for number in range(3):
        made.job(
            f"w{number}", "q", labels={"app": "w"}, constraints=rule, created=float(number + 1)
        )
    made.run()
    where = made.where()
    (alone,) = [name for name in where if list(where.values()).count(where[name]) == 1]
    assert len(_left_without(made, alone)) == 1


@pytest.mark.parametrize("seed", [*range(12), 112, 148, 223])
def test_random_terms_hold_pod_by_pod(seed: int) -> None:
    """Also after evictions: the counts follow moves that were tried and taken back."""
    dice = random.Random(seed)
    made = nodes(**{f"n{i}": dice.choice("xyz") for i in range(6)})
    made.queue("rich", 40)
    made.queue("poor", 0)
    names = ("a", "b", "c")
    for number in range(24):
        term = specs.AffinityTerm(
            topology_key=dice.choice((ZONE, HOST)), selector=app(dice.choice(names))
        )
        wanted = dice.choice(
            (
                specs.FREE,
                specs.Constraints(pod_anti_affinity=(term,)),
                specs.Constraints(pod_affinity=(term,)),
            )
        )
        made.job(
            f"j{number:02d}",
            dice.choice(("rich", "poor")),
            pods=dice.choice((1, 2)),
            gpus=dice.choice((1, 2, 4)),
            labels={"app": dice.choice(names)},
            constraints=wanted,
            created=float(number),
        )
    for _ in range(3):
        decided = made.run()
        assert decided.errors == []
        # Affinity holds when a pod is placed; what it needed may leave later.
        fresh = set() if decided.evictions else {bind.task.name for bind in decided.binds}
        assert _broken(made, fresh) == []
        made.apply(decided)
