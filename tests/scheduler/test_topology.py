"""Gangs within racks and zones."""

from __future__ import annotations

from tenantry.scheduler.engine import domains, specs
from tenantry.scheduler.scenarios import world


def racks(gpus: int = 2, nodes: int = 2) -> world.World:
    made = world.World()
    for zone in "xy":
        for rack in "12":
            for index in range(nodes):
                made.node(
                    f"{zone}{rack}{index}", gpus=gpus, labels={"zone": zone, "rack": zone + rack}
                )
    made.seen.put_topology(
        specs.Topology(name="dc", levels=("zone", "rack"), aliases={"Rack": "rack"})
    )
    made.queue("q", -1)
    return made


def within(**levels: str) -> specs.TopologyConstraint:
    return specs.TopologyConstraint(topology="dc", **levels)


def used(made: world.World, job: str, length: int) -> set[str]:
    return {node[:length] for task, node in made.where().items() if task.startswith(job)}


def test_required_level_is_kept() -> None:
    made = racks()
    made.job("g", "q", pods=4, topology=within(required="rack"))
    made.run()
    assert len(used(made, "g", 2)) == 1


def test_required_level_by_alias() -> None:
    made = racks()
    made.job("g", "q", pods=4, topology=within(required="Rack"))
    made.run()
    assert len(used(made, "g", 2)) == 1


def test_what_does_not_fit_in_a_rack_waits_with_the_numbers() -> None:
    made = racks()
    made.job("g", "q", pods=5, topology=within(required="rack"))
    made.run()
    assert used(made, "g", 2) == set()
    reason = made.engine.explain(("ns", "g"))[0]
    assert reason.code == "TopologyUnsatisfied"
    assert reason.details["domains"]["x.x1"] == {"can_allocate": 4, "required": 5}


def test_preferred_level_gives_way() -> None:
    made = racks()
    made.job("g", "q", pods=5, topology=within(preferred="rack"))
    made.run()
    assert len(used(made, "g", 1)) == 1
    assert len(used(made, "g", 2)) == 2


def test_a_growing_job_stays_where_it_runs() -> None:
    made = racks()
    made.job("g", "q", pods=3, minimum=1, on="y20", topology=within(required="rack"))
    for index in (1, 2):
        task = made.seen.tables.tasks[index]
        assert task is not None
        made.seen.drop_task(task.uid)
    made.job("g", "q", pods=3, minimum=1, topology=within(required="rack"))
    first = made.seen.row_of["ns/g-0"]
    made.seen.move(first, 6, made.seen.tables.nodes.by_name["y20"])
    made.run()
    assert used(made, "g", 2) == {"y2"}


def test_subgroups_have_levels_of_their_own() -> None:
    made = racks()
    parts = tuple(
        specs.Subgroup(name=name, min_member=4, topology=within(required="rack")) for name in "ab"
    )
    made.job(
        "g",
        "q",
        pods=8,
        subgroups=parts,
        subgroup_of={index: "ab"[index // 4] for index in range(8)},
        topology=within(required="zone"),
    )
    made.run()
    where = made.where()
    assert len({node[0] for node in where.values()}) == 1
    for part in (range(4), range(4, 8)):
        assert len({where[f"g-{index}"][:2] for index in part}) == 1


def test_unknown_level() -> None:
    made = racks()
    made.job("g", "q", topology=within(required="planet"))
    made.run()
    assert made.engine.explain(("ns", "g"))[0].message == "Topology dc has no level planet"


def test_domains() -> None:
    made = racks()
    made.node("stray")
    made.seen.settle()
    tree = domains.Tree(made.seen.topologies["dc"], made.seen.tables.nodes.specs)
    assert [domain.name for domain in tree.domains] == [
        "",
        "x",
        "y",
        "x.x1",
        "x.x2",
        "y.y1",
        "y.y2",
    ]
    assert len(tree.root.rows) == 8
