"""Random clusters with everything in them at once: claims, terms, topology, limits, users, options."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tenantry.scheduler.engine import audit, config, device_specs, specs
from tenantry.scheduler.scenarios import world

GPU = "gpu.nvidia.com"
HOST = "kubernetes.io/hostname"
ANY = (specs.Toleration(operator="Exists"),)
TAINT = specs.Taint(key="broken", effect="NoExecute")
OPTIONS = ("numa", "aging", "reservation", "lending")


def app(name: str) -> tuple[specs.Requirement, ...]:
    return (specs.Requirement(key="app", operator="In", values=(name,)),)


def device(dice: random.Random, number: int) -> device_specs.Device:
    kind: dict[str, Any] = dice.choice(({}, {"shareable": True}, {"taints": (TAINT,)}))
    return device_specs.Device(name=f"g{number}", capacity={GPU: {"memory": 80}}, **kind)


def cluster(dice: random.Random) -> world.World:
    chosen = [config.PluginChoice(name) for name in OPTIONS if dice.random() < 0.3]
    actions = (*config.ACTIONS, "maxruntime")
    made = world.World(config.Config(plugins=(*config.PLUGINS, *chosen), actions=actions))
    driver = (f'device.driver == "{GPU}"',)
    made.seen.put_class(device_specs.DeviceClass(name=GPU, selectors=driver, gpu=True))
    made.seen.put_topology(specs.Topology(name="t", levels=("zone", "rack")))
    for index in range(dice.randint(2, 7)):
        claimed = dice.random() < 0.3
        taint = specs.Taint(key="k", effect=dice.choice(("NoSchedule", "PreferNoSchedule")))
        made.node(
            f"n{index}",
            gpus=0 if claimed else dice.choice((1, 2, 4, 8)),
            labels={"zone": dice.choice("ab"), "rack": dice.choice("xyz")},
            dra=claimed,
            pods=dice.choice((4, 110)),
            taints=(taint,) if dice.random() < 0.3 else (),
        )
        if claimed:
            devices = tuple(device(dice, number) for number in range(dice.randint(1, 4)))
            made.seen.put_slice(
                device_specs.DeviceSlice(
                    name=f"s{index}",
                    driver=GPU,
                    pool=f"n{index}",
                    node=f"n{index}",
                    devices=devices,
                )
            )
    return made


def queues(dice: random.Random, made: world.World) -> list[str]:
    names = []
    for index in range(dice.randint(1, 2)):
        made.queue(f"d{index}", dice.choice((0, 2, 4, -1)), limit=dice.choice((-1, -1, 6)))
        for number in range(dice.randint(1, 2)):
            names.append(f"q{index}{number}")
            made.queue(
                names[-1],
                dice.choice((0, 1, 2, 4)),
                limit=dice.choice((-1, -1, 5)),
                parent=f"d{index}",
                priority=dice.choice((100, 200)),
                fair_users=dice.random() < 0.2,
            )
    return names


def constraints(dice: random.Random) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    term = specs.AffinityTerm(
        topology_key=dice.choice(("zone", HOST)),
        selector=app(dice.choice("ab")),
        weight=dice.choice((0, 0, 5)),
    )
    rule = specs.Spread(
        topology_key="zone", max_skew=1, selector=app(dice.choice("ab")), hard=dice.random() < 0.5
    )
    wanted[dice.choice(("pod_affinity", "pod_anti_affinity", "-", "--"))] = (term,)
    wanted[dice.choice(("spread", "-", "--"))] = (rule,)
    wanted[dice.choice(("preferred", "-", "--"))] = ((dice.randint(1, 100), app("a")),)
    wanted[dice.choice(("ports", "-", "--"))] = (specs.HostPort("TCP", 80),)
    wanted[dice.choice(("tolerations", "-", "--"))] = ANY
    return {field: value for field, value in wanted.items() if "-" not in field}


REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"capacity": (("memory", 40),)},
    {"capacity": (("memory", 20),), "count": 2},
    {"every": True},
    {"tolerations": ANY},
)


def jobs(dice: random.Random, made: world.World, names: list[str]) -> None:
    for number in range(dice.randint(3, 14)):
        wanted = constraints(dice)
        queue = dice.choice(names)
        gpus = dice.choice((0, 1, 2, 0.5, 0.3))
        if dice.random() < 0.25:
            gpus = 0
            asked = device_specs.DeviceRequest(name="r", device_class=GPU, **dice.choice(REQUESTS))
            labels = {"kai.scheduler/queue": queue}
            made.seen.put_claim(
                device_specs.Claim(
                    namespace="ns", name=f"c{number}", labels=labels, requests=((asked,),)
                )
            )
            wanted["claims"] = (f"c{number}",)
        topology = specs.TopologyConstraint(
            topology="t", required=dice.choice(("", "zone")), preferred=dice.choice(("", "rack"))
        )
        pods = dice.choice((1, 1, 2, 4))
        made.job(
            f"j{number:02d}",
            queue,
            pods=pods,
            gpus=gpus,
            minimum=dice.randint(1, pods),
            labels={"app": dice.choice("ab")},
            constraints=specs.Constraints(**wanted),
            priority=dice.choice((40, 50, 75, 100, 125)),
            created=float(number),
            user=dice.choice(("u", "v", "")),
            topology=topology if dice.random() < 0.2 else None,
            devices=dice.choice((1, 2)) if gpus in (0.5, 0.3) else 1,
        )


def play(seed: int) -> None:
    """Play cycles: no fault, nothing used twice now or after all have left, and no drift."""
    dice = random.Random(seed)
    made = cluster(dice)
    jobs(dice, made, queues(dice, made))
    for number in range(3):
        decided = made.run(now=world.NOW + number * 700)
        assert decided.errors == [], seed
        state = made.session.state
        assert (state.free >= 0).all(), seed
        assert (state.idle >= 0).all(), seed
        made.apply(decided)
        assert audit.drift(made.seen) == [], seed
        here = [task for task in made.seen.tables.tasks if task is not None]
        if dice.random() < 0.3:
            made.seen.drop_task(dice.choice(here).uid)


@pytest.mark.parametrize("seed", range(8))
def test_random_clusters(seed: int) -> None:
    play(seed)


@pytest.mark.long
def test_many_random_clusters() -> None:
    for seed in range(8, 800):
        play(seed)
