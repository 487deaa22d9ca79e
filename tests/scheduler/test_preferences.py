"""What pods prefer, by the names and weights of kube-scheduler."""

from __future__ import annotations

import pytest

from tenantry.scheduler.engine import config, specs
from tenantry.scheduler.scenarios import world


def nodes(**labels: str) -> world.World:
    made = world.World()
    made.queue("q", -1)
    for name, disk in labels.items():
        made.node(name, labels={"disk": disk, "zone": name[0]})
    return made


def prefers(*terms: tuple[int, str]) -> specs.Constraints:
    return specs.Constraints(
        preferred=tuple(
            (weight, (specs.Requirement(key="disk", operator="In", values=(value,)),))
            for weight, value in terms
        )
    )


def test_preferred_affinity_outweighs_packing() -> None:
    made = nodes(a1="hdd", a2="ssd")
    made.job("packed", "q", on="a1", gpus=4)
    made.job("plain", "q", created=2.0)
    made.job("picky", "q", created=3.0, constraints=prefers((1, "ssd")))
    made.run()
    assert made.where() == {"packed-0": "a1", "plain-0": "a1", "picky-0": "a2"}


def test_weights_of_terms_add_up() -> None:
    made = nodes(a1="hdd", a2="ssd", a3="nvme")
    made.job("j", "q", constraints=prefers((30, "ssd"), (25, "nvme"), (10, "nvme")))
    made.run()
    assert made.where() == {"j-0": "a3"}


def test_starting_at_once_outweighs_affinity() -> None:
    made = nodes(a1="hdd", a2="ssd")
    made.job("full", "q", on="a2", gpus=8, max_runtime=None)
    made.job("j", "q", created=2.0, constraints=prefers((100, "ssd")))
    made.run()
    assert made.where()["j-0"] == "a1"


@pytest.mark.parametrize(
    ("tolerations", "node"),
    [
        ((), "b"),
        ((specs.Toleration(key="old", operator="Exists"),), "a"),
        ((specs.Toleration(key="old", operator="Exists", effect="NoSchedule"),), "b"),
    ],
)
def test_soft_taints(tolerations: tuple[specs.Toleration, ...], node: str) -> None:
    made = world.World()
    made.queue("q", -1)
    made.node("a", taints=(specs.Taint(key="old", effect="PreferNoSchedule"),))
    made.node("b")
    made.job("j", "q", constraints=specs.Constraints(tolerations=tolerations))
    made.run()
    assert made.where() == {"j-0": node}


def test_a_soft_taint_keeps_nobody_away() -> None:
    made = world.World()
    made.queue("q", -1)
    made.node("a", taints=(specs.Taint(key="old", effect="PreferNoSchedule"),))
    made.job("j", "q")
    made.run()
    assert made.where() == {"j-0": "a"}


def spread(*, hard: bool, min_domains: int = 1) -> specs.Constraints:
    selector = (specs.Requirement(key="app", operator="In", values=("w",)),)
    rule = specs.Spread(
        topology_key="zone", max_skew=1, selector=selector, hard=hard, min_domains=min_domains
    )
    return specs.Constraints(spread=(rule,))


def test_soft_spreading_alternates_and_never_refuses() -> None:
    made = nodes(a1="x", b1="x")
    made.job("j", "q", pods=4, minimum=1, labels={"app": "w"}, constraints=spread(hard=False))
    made.run()
    assert sorted(made.where().values()) == ["a1", "a1", "b1", "b1"]
    made = nodes(a1="x")
    made.node("b1", gpus=0, labels={"zone": "b"})
    made.job("j", "q", pods=4, minimum=1, labels={"app": "w"}, constraints=spread(hard=False))
    made.run()
    assert sorted(made.where().values()) == ["a1"] * 4


def test_too_few_domains_count_as_empty_ones() -> None:
    for least, started in ((1, 4), (3, 2)):
        made = nodes(a1="x", b1="x")
        rules = spread(hard=True, min_domains=least)
        made.job("j", "q", pods=4, minimum=1, labels={"app": "w"}, constraints=rules)
        made.run()
        assert len(made.where()) == started


def test_kai_has_no_such_preferences() -> None:
    """A configuration that names its plugins gets those and no others."""
    plugins = tuple(choice for choice in config.PLUGINS if choice.name != "nodepreferences")
    made = world.World(config.Config(plugins=plugins))
    made.queue("q", -1)
    made.node("a1")
    made.node("a2", labels={"disk": "ssd"})
    made.job("j", "q", constraints=prefers((100, "ssd")))
    made.run()
    assert made.where() == {"j-0": "a1"}


def test_preferences_compare_feasible_nodes_only() -> None:
    """kube-scheduler maps scores over the nodes that passed its filters.

    With `best` out of the way (too small), `good` has 100 x 2 points for affinity and -3 x 100 for
    its soft taint, against 50 x 2 of `plain`: plain wins. Were `best` counted, good had 2 x 40.
    """
    made = world.World()
    made.queue("q", -1)
    made.node("best", gpus=1, labels={"rank": "9", "disk": "ssd"})
    made.node("good", labels={"disk": "ssd"})
    made.node("plain", labels={"disk": "hdd"})
    made.job("full", "q", on="best", gpus=1, priority=100)
    wanted = specs.Constraints(
        preferred=(
            (60, (specs.Requirement(key="rank", operator="Exists"),)),
            (40, (specs.Requirement(key="disk", operator="In", values=("ssd",)),)),
            (20, (specs.Requirement(key="disk", operator="In", values=("hdd",)),)),
        )
    )
    made.job("j", "q", gpus=2, constraints=wanted)
    made.run()
    shape = made.session.state.shape_of[made.seen.row_of["ns/j-0"]]
    scores = made.session.ranker.column(shape).relative_score.tolist()
    assert scores[1:] == [200.0, 100.0]
    assert made.where()["j-0"] == "good"


def test_scores_follow_what_is_feasible() -> None:
    """When the best node fills up, the next one gets the full score, in whole numbers."""
    made = world.World()
    made.queue("q", -1)
    for name, rank in (("a", "1"), ("b", "2"), ("c", "3")):
        made.node(name, gpus=1, labels={"rank": rank})
    wanted = specs.Constraints(
        preferred=tuple(
            (weight, (specs.Requirement(key="rank", operator="In", values=(rank,)),))
            for rank, weight in (("1", 10), ("2", 15), ("3", 70))
        )
    )
    made.job("j", "q", constraints=wanted)
    made.job("k", "q", constraints=wanted, created=2.0)
    made.job("l", "q", constraints=wanted, created=3.0, gpus=0)
    made.run()
    assert (made.where()["j-0"], made.where()["k-0"], made.where()["l-0"]) == ("c", "b", "c")
    shape = made.session.state.shape_of[made.seen.row_of["ns/j-0"]]
    # Only `a` is left: 10 of 10. Before: 10 x 100 // 70 = 14 and 15 x 100 // 70 = 21.
    assert made.session.ranker.column(shape).relative_score[0] == 200.0
