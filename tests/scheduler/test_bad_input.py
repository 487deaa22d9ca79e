"""One bad object sets aside itself; the cycle goes on."""

from __future__ import annotations

import math

import pytest

from tenantry.scheduler.engine import audit, config, errors, gangs, registry, specs
from tenantry.scheduler.scenarios import world


def good(made: world.World) -> None:
    made.node("n")
    made.queue("good", 4)
    made.job("fine", "good")


def outcome(made: world.World) -> set[str]:
    decided = made.run()
    assert not decided.errors
    return set(made.where())


BAD_QUEUES = {
    "missing parent": {"name": "bad", "parent": "nowhere"},
    "itself": {"name": "bad", "parent": "bad"},
    "NaN weight": {"name": "bad", "resources": {"gpu": specs.Bound(weight=math.nan)}},
    "infinite weight": {"name": "bad", "resources": {"gpu": specs.Bound(weight=math.inf)}},
    "negative quota": {"name": "bad", "resources": {"gpu": specs.Bound(quota=-7)}},
}


@pytest.mark.parametrize("fields", BAD_QUEUES.values(), ids=BAD_QUEUES)
def test_queue(fields: dict[str, object]) -> None:
    made = world.World()
    good(made)
    made.seen.put_queue(specs.Queue(**fields))  # type: ignore[arg-type]
    made.job("stuck", "bad")
    assert outcome(made) == {"fine-0"}
    reason = made.engine.explain(("ns", "stuck"))[0]
    assert reason.code == "QueueDoesNotExist"
    assert "cannot be used" in reason.message


def test_cycle_of_queues() -> None:
    made = world.World()
    good(made)
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        made.queue(name, parent=parent)
        made.job(f"j{name}", name)
    assert outcome(made) == {"fine-0"}
    assert set(made.session.rejected_queues) == {"a", "b", "c"}


BAD_GROUPS = {
    "a million pods": {"min_member": 1_000_000},
    "negative": {"min_member": -1},
    "unknown parent": {"subgroups": (specs.Subgroup(name="a", parent="x", min_member=1),)},
    "cyclic": {
        "subgroups": (
            specs.Subgroup(name="a", parent="b"),
            specs.Subgroup(name="b", parent="a"),
        )
    },
    "twice": {
        "subgroups": (
            specs.Subgroup(name="a", min_member=1),
            specs.Subgroup(name="a", min_member=1),
        )
    },
    "NaN": {"preemption_delay": math.nan},
}


@pytest.mark.parametrize("fields", BAD_GROUPS.values(), ids=BAD_GROUPS)
def test_pod_group(fields: dict[str, object]) -> None:
    made = world.World()
    good(made)
    made.seen.put_job(specs.Job(namespace="ns", name="bad", queue="good", **fields))  # type: ignore[arg-type]
    made.seen.put_task(specs.Task(namespace="ns", name="p", uid="p", job=("ns", "bad"), gpus=1000))
    assert outcome(made) == {"fine-0"}
    reason = made.engine.explain(("ns", "bad"))[0]
    assert (reason.code, reason.message) == (
        "InvalidPodGroup",
        made.seen.set_aside["job", "ns/bad"],
    )


BAD_PODS = {
    "negative": {"requests": {"cpu": -1}},
    "absurd": {"requests": {"memory": 1 << 80}},
    "fraction above one": {"portion": 2_000_000},
    "fraction and whole": {"portion": 500_000, "gpus": 1000},
    "no devices": {"portion": 500_000, "devices": 0},
}


@pytest.mark.parametrize("fields", BAD_PODS.values(), ids=BAD_PODS)
def test_pod(fields: dict[str, object]) -> None:
    made = world.World()
    good(made)
    made.seen.put_job(specs.Job(namespace="ns", name="bad", queue="good"))
    made.seen.put_task(
        specs.Task(namespace="ns", name="p", uid="p", job=("ns", "bad"), **fields)  # type: ignore[arg-type]
    )
    assert outcome(made) == {"fine-0"}
    assert made.seen.set_aside["task", "ns/p"]


def test_bad_node() -> None:
    made = world.World()
    good(made)
    made.seen.put_node(specs.Node(name="bad", allocatable={"cpu": -5}))
    assert outcome(made) == {"fine-0"}
    assert ("node", "bad") in made.seen.set_aside


def test_unknown_topology() -> None:
    made = world.World()
    good(made)
    made.job("lost", "good", topology=specs.TopologyConstraint(topology="moon", required="rack"))
    assert outcome(made) == {"fine-0"}
    reason = made.engine.explain(("ns", "lost"))[0]
    assert reason.message == "Requested topology moon does not exist"


def test_equal_names_in_two_namespaces_are_two_jobs() -> None:
    made = world.World()
    good(made)
    made.queue("other", 1)
    made.job("same", "good", namespace="one")
    made.job("same", "other", namespace="two", pods=2)
    outcome(made)
    sizes = {key: len(job.rows) for key, job in made.seen.jobs.items() if key[1] == "same"}
    assert sizes == {("one", "same"): 1, ("two", "same"): 2}


def test_unknown_subgroup_sets_the_pod_aside() -> None:
    made = world.World()
    good(made)
    made.job("j", "good", subgroup_of={0: "nowhere"})
    assert outcome(made) == {"fine-0"}
    assert len(made.seen.jobs["ns", "j"].invalid) == 1


def test_absurd_limit_is_no_limit() -> None:
    made = world.World()
    made.node("n")
    made.queue("q", resources={"memory": specs.Bound(quota=10**30, limit=10**30)})
    made.job("j", "q")
    assert outcome(made) == {"j-0"}


def test_unknown_names_in_a_configuration() -> None:
    with pytest.raises(errors.UnknownName, match='unknown plugin "nope"; known are aging'):
        world.World(config.Config(plugins=(config.PluginChoice("nope"),)))
    with pytest.raises(errors.UnknownName, match='unknown action "nope"'):
        world.World(config.Config(actions=("nope",)))
    assert set(registry.ACTIONS) >= set(config.ACTIONS)


def test_threshold_above_the_number_of_children_never_starts() -> None:
    tree = gangs.build(
        specs.Job(
            namespace="",
            name="j",
            queue="q",
            min_subgroup=3,
            subgroups=(specs.Subgroup(name="a", min_member=1),),
        )
    )
    assert tree.threshold == 3


def test_chains_without_end() -> None:
    """Trees are walked by recursion: what is too deep is set aside before somebody walks it."""
    made = world.World()
    good(made)
    for level in range(3000):
        made.queue(f"q{level}", parent=f"q{level - 1}" if level else "")
    made.job("deep", "q2999")
    nested = tuple(
        specs.Subgroup(name=f"s{i}", parent=f"s{i - 1}" if i else "", min_member=1)
        for i in range(5000)
    )
    made.seen.put_job(specs.Job(namespace="ns", name="nested", queue="good", subgroups=nested))
    assert outcome(made) == {"fine-0"}
    (reason,) = made.engine.explain(("ns", "deep"))
    assert reason.message.endswith("is more than 64 levels deep")
    (reason,) = made.engine.explain(("ns", "nested"))
    assert reason.message.endswith("is more than 32 levels deep")


def test_leaf_without_a_minimum_needs_one_pod() -> None:
    flat = tuple(specs.Subgroup(name=f"s{i}") for i in range(3))
    tree = gangs.build(specs.Job(namespace="", name="j", queue="q", subgroups=flat))
    assert [leaf.minimum for leaf in gangs.podsets(tree)] == [1, 1, 1]


def test_refused_pod_explains_its_job_until_it_is_gone() -> None:
    made = world.World()
    good(made)
    made.seen.put_job(specs.Job(namespace="ns", name="bad", queue="good"))
    pod = specs.Task(namespace="ns", name="p", uid="p", job=("ns", "bad"), portion=2_000_000)
    made.seen.put_task(pod)
    made.seen.put_node(specs.Node(name="broken", allocatable={"cpu": -5}))
    assert outcome(made) == {"fine-0"}
    (reason,) = made.engine.explain(("ns", "bad"))
    assert (reason.code, reason.message) == (
        "InvalidPod",
        "pod ns/p: GPU fraction is 2.0; accepted is 0 to 1",
    )
    assert audit.drift(made.seen) == []
    made.seen.drop_task("p")
    made.seen.drop_node("broken")
    assert made.seen.set_aside == {}
    assert audit.drift(made.seen) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"kValue": "x"}, "could not convert string to float: 'x'"),
        ({"kValue": "nan"}, "kValue is nan; accepted is a finite number"),
    ],
)
def test_arguments_that_a_plugin_cannot_use(arguments: dict[str, str], why: str) -> None:
    chosen = config.PluginChoice("proportion", arguments)
    with pytest.raises(errors.InvalidArguments, match=f'arguments of plugin "proportion".*{why}'):
        world.World(config.Config(plugins=(chosen,)))


def test_plugin_named_twice() -> None:
    chosen = config.PluginChoice("proportion")
    with pytest.raises(errors.InvalidArguments, match="named twice; accepted is once"):
        world.World(config.Config(plugins=(chosen, chosen)))


def test_what_no_node_has_is_said_in_whole_units() -> None:
    made = world.World()
    good(made)
    made.job("wide", "good", gpus=16)
    outcome(made)
    messages = [reason.message for reason in made.engine.explain(("ns", "wide"))]
    assert any("no node has that much gpu: 16 GPUs asked, 8 GPUs at most" in m for m in messages)


def test_job_of_too_many_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small its minimum is: to look at each of a million pods would take seconds."""
    monkeypatch.setattr(gangs, "MOST_TASKS", 5)
    made = world.World()
    good(made)
    made.job("huge", "good", pods=6, minimum=1)
    made.job("large", "good", pods=5, minimum=1, gpus=0.1)
    assert outcome(made) == {"fine-0", *(f"large-{i}" for i in range(5))}
    (reason,) = made.engine.explain(("ns", "huge"))
    assert reason.message == "the job has 6 pods; accepted is at most 5"


def test_memory_below_minus_one_is_no_bound() -> None:
    """As KAI clamps it; for CPU and GPUs it is refused."""
    made = world.World()
    made.node("n")
    made.queue("q", resources={"memory": specs.Bound(quota=-7, limit=-9)})
    made.job("j", "q")
    assert outcome(made) == {"j-0"}
    queue = made.session.queues["q"]
    assert (queue.quota[1], queue.limit[1]) == (-1, -1)
