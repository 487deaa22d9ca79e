"""Devices of resource claims: who gets which, and what that is charged."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenantry.scheduler.engine import audit, device_specs, specs, status
from tenantry.scheduler.scenarios import world

GIB = 1 << 30
GPU = "gpu.nvidia.com"


def request(count: int = 1, *, name: str = "gpus", **fields: Any) -> device_specs.DeviceRequest:
    fields.setdefault("device_class", GPU)
    return device_specs.DeviceRequest(name=name, count=count, **fields)


def claim(
    name: str, *options: device_specs.DeviceRequest, queue: str = "q", **fields: Any
) -> device_specs.Claim:
    """Return a claim; several options are requests that must all be served."""
    fields.setdefault("requests", tuple((option,) for option in options or (request(),)))
    return device_specs.Claim(
        namespace="ns", name=name, labels={"kai.scheduler/queue": queue}, **fields
    )


def device(name: str, **fields: Any) -> device_specs.Device:
    attributes = {GPU: fields.pop("attributes", {})}
    capacity = {GPU: fields.pop("capacity", {})}
    return device_specs.Device(name=name, attributes=attributes, capacity=capacity, **fields)


def claimed(nodes: dict[str, list[device_specs.Device]], **fields: Any) -> world.World:
    """Return nodes whose GPUs are offered by slices."""
    made = world.World()
    made.queue("q", 16)
    made.seen.put_class(
        device_specs.DeviceClass(name=GPU, selectors=(f'device.driver == "{GPU}"',), gpu=True)
    )
    for name, devices in nodes.items():
        made.node(name, gpus=0, dra=True)
        made.seen.put_slice(
            device_specs.DeviceSlice(
                name=f"of-{name}",
                driver=GPU,
                pool=name,
                node=name,
                devices=tuple(devices),
                **fields,
            )
        )
    return made


def using(made: world.World, name: str, *claims: str, **fields: Any) -> None:
    """Add a job whose pods use claims."""
    fields.setdefault("gpus", 0)
    made.job(name, "q", constraints=specs.Constraints(claims=claims), **fields)


def got(made: world.World) -> dict[str, list[str]]:
    """Return the devices of each claim that a bind uses."""
    return {
        name: [item.device for item in devices]
        for bind in made.session.decisions.binds
        for name, devices in bind.devices
    }


def numbered(count: int) -> list[device_specs.Device]:
    return [device(f"gpu-{index}") for index in range(count)]


def test_a_shared_claim_is_counted_once() -> None:
    made = claimed({"n": numbered(2)})
    made.seen.put_claim(claim("both", request(2)))
    made.seen.put_claim(claim("more", request(1)))
    using(made, "j", "both", pods=3)
    using(made, "k", "more", created=9.0)
    made.run()
    assert set(made.where()) == {"j-0", "j-1", "j-2"}
    assert made.session.queues["q"].allocated[2] == 2000
    assert made.session.state.idle[3, 0] == 0


def test_a_shared_claim_is_charged_to_who_is_left() -> None:
    made = claimed({"n": numbered(1)})
    allocated = (device_specs.Allocated(GPU, "n", "gpu-0", "gpus"),)
    made.seen.put_claim(claim("one", allocated=allocated))
    using(made, "fixed", "one", on="n", priority=100)
    using(made, "loose", "one", on="n")
    made.run()
    assert made.session.queues["q"].allocated_fixed[2] == 1000
    made.seen.drop_task("ns/fixed-0")
    made.run()
    assert made.session.queues["q"].allocated[2] == 1000
    assert made.session.queues["q"].allocated_fixed[2] == 0
    made.seen.drop_task("ns/loose-0")
    made.run()
    assert made.session.queues["q"].allocated[2] == 0
    assert audit.drift(made.seen) == []


def test_claims_need_the_label_of_the_queue() -> None:
    made = claimed({"n": numbered(2)})
    made.seen.put_claim(claim("wrong", queue="other"))
    made.seen.put_claim(claim("own", queue="other", template=True))
    using(made, "j", "wrong")
    using(made, "k", "own")
    made.run()
    assert set(made.where()) == {"k-0"}
    assert "needs the label" in made.engine.explain(("ns", "j"))[0].message


def test_devices_are_named_when_a_claim_is_first_used() -> None:
    made = claimed({"n": numbered(3)})
    held = claim("held", allocated=(device_specs.Allocated(GPU, "n", "gpu-0", "gpus"),))
    for spec in (held, claim("two", request(2)), claim("more", request(2))):
        made.seen.put_claim(spec)
    using(made, "r", "held", on="n")
    using(made, "j", "two")
    using(made, "k", "more")
    made.run()
    assert got(made) == {"two": ["gpu-1", "gpu-2"]}


MODELS = {
    "old": [device("a", attributes={"model": "T4"}, capacity={"memory": 16 * GIB * 1000})],
    "new": [device("b", attributes={"model": "H100"}, capacity={"memory": 80 * GIB * 1000})],
}


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (f'device.attributes["{GPU}"].model == "H100"', "new"),
        (f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) < 0', "old"),
        (f'device.attributes["{GPU}"].model in ["A100", "B200"]', None),
        ('device.attributes["nobody.example.com"].model == "H100"', None),
        ("device.driver ==", None),
    ],
)
def test_selectors(expression: str, node: str | None) -> None:
    made = claimed(MODELS)
    made.seen.put_claim(claim("c", request(selectors=(expression,))))
    using(made, "j", "c")
    made.run()
    assert made.where() == ({"j-0": node} if node else {})


def test_an_unknown_class_is_said_to_be_unknown() -> None:
    made = claimed(MODELS)
    made.seen.put_claim(claim("c", request(device_class="moon")))
    using(made, "j", "c")
    made.run()
    assert "device class moon does not exist" in made.engine.explain(("ns", "j"))[0].message


def test_all_devices_or_none() -> None:
    made = claimed({"busy": numbered(3), "idle": numbered(2)})
    made.seen.put_claim(
        claim("held", allocated=(device_specs.Allocated(GPU, "busy", "gpu-0", "gpus"),))
    )
    made.seen.put_claim(claim("all", request(every=True)))
    using(made, "r", "held", on="busy")
    using(made, "j", "all")
    made.run()
    assert made.where()["j-0"] == "idle"
    assert got(made) == {"all": ["gpu-0", "gpu-1"]}


def test_alternatives_in_order_of_preference() -> None:
    made = claimed(MODELS)
    options = tuple(
        request(
            count, name=f"gpu/{name}", selectors=(f'device.attributes["{GPU}"].model == "{m}"',)
        )
        for name, m, count in (("best", "H100", 2), ("good", "T4", 1))
    )
    made.seen.put_claim(claim("c", requests=(options,)))
    using(made, "j", "c")
    made.run()
    (bind,) = made.session.decisions.binds
    assert bind.devices == (("c", (device_specs.Allocated(GPU, "old", "a", "gpu/good"),)),)


def test_matching_attributes_are_sought_by_trying() -> None:
    """The first device has no partner: it must be given back."""
    switches = [device(f"g{i}", attributes={"switch": s}) for i, s in enumerate((1, 2, 2))]
    made = claimed({"n": switches})
    made.seen.put_claim(claim("pair", request(2), match=((f"{GPU}/switch", ()),)))
    using(made, "j", "pair")
    made.run()
    assert got(made) == {"pair": ["g1", "g2"]}


def test_two_claims_of_a_pod_are_served_together() -> None:
    """The first claim takes any device, but must leave the second one what it needs."""
    devices = [device("a", attributes={"model": "H100"}), device("b", attributes={"model": "T4"})]
    made = claimed({"n": devices})
    made.seen.put_claim(claim("any"))
    made.seen.put_claim(
        claim("h", request(selectors=(f'device.attributes["{GPU}"].model == "H100"',)))
    )
    using(made, "j", "any", "h")
    made.run()
    assert got(made) == {"any": ["b"], "h": ["a"]}


def test_partitions_share_counters() -> None:
    slices = [device(f"half-{i}", counters=(("card", "memory", 40),)) for i in range(2)]
    whole = device("whole", counters=(("card", "memory", 80),))
    made = claimed({"n": [*slices, whole]}, counters=(("card", "memory", 80),))
    assert made.seen.tables.alloc[3, 0] == 1000
    for name in ("x", "y", "z"):
        made.seen.put_claim(claim(name))
        using(made, name, name)
    made.run()
    assert got(made) == {"x": ["half-0"], "y": ["half-1"]}
    assert made.session.queues["q"].allocated[2] == 1000
    assert made.session.state.idle[3, 0] == 0


def test_devices_on_the_network_are_reached_from_selected_nodes() -> None:
    made = claimed({"far": [], "near": []})
    for name in ("near-2", "near-3"):
        made.node(name, labels={"fabric": "a"})
    made.seen.put_slice(
        device_specs.DeviceSlice(
            name="net",
            driver=GPU,
            pool="net",
            selector=((specs.Requirement(key="fabric", operator="Exists"),),),
            devices=(device("nic"),),
        )
    )
    made.seen.put_claim(claim("c"))
    made.seen.put_claim(claim("d"))
    using(made, "j", "c", pods=2)
    using(made, "k", "d", created=9.0)
    made.run()
    assert set(made.where()) == {"j-0", "j-1"}
    assert set(made.where().values()) <= {"near-2", "near-3"}


def test_incomplete_and_old_pools_are_not_used() -> None:
    made = claimed({"n": numbered(1)}, of_slices=2)
    made.seen.put_claim(claim("c"))
    using(made, "j", "c")
    made.run()
    assert made.where() == {}
    made.seen.put_slice(
        device_specs.DeviceSlice(
            name="next", driver=GPU, pool="n", node="n", generation=1, devices=(device("new"),)
        )
    )
    made.run()
    assert got(made) == {"c": ["new"]}


def test_devices_that_others_leave_are_planned_for() -> None:
    made = claimed({"n": numbered(1)})
    allocated = (device_specs.Allocated(GPU, "n", "gpu-0", "gpus"),)
    made.seen.put_claim(claim("old", allocated=allocated, reserved_for=("r-0",)))
    made.seen.put_claim(claim("new"))
    using(made, "r", "old", on="n")
    task = made.seen.tables.tasks[made.seen.row_of["ns/r-0"]]
    assert task is not None
    made.seen.put_task(dataclasses.replace(task, status=status.RELEASING))
    using(made, "j", "new")
    decided = made.run()
    assert not decided.binds
    assert [plan.task.name for plan in decided.plans] == ["j-0"]


def test_allocated_claims_of_strangers_keep_their_devices() -> None:
    made = claimed({"n": numbered(1)})
    allocated = (device_specs.Allocated(GPU, "n", "gpu-0", "gpus"),)
    made.seen.put_claim(claim("theirs", allocated=allocated, reserved_for=("unknown",)))
    made.seen.put_claim(claim("new"))
    using(made, "j", "new")
    made.run()
    assert made.where() == {}


def test_reclaim_by_claims() -> None:
    made = claimed({"n": numbered(2)})
    made.queue("other", 0)
    for index in range(2):
        given = device_specs.Allocated(GPU, "n", f"gpu-{index}", "gpus")
        made.seen.put_claim(claim(f"r{index}", queue="other", allocated=(given,)))
        made.job(
            f"r{index}",
            "other",
            gpus=0,
            on="n",
            created=float(index),
            constraints=specs.Constraints(claims=(f"r{index}",)),
        )
    made.seen.put_claim(claim("w"))
    using(made, "w", "w")
    decided = made.run()
    assert [eviction.task.name for eviction in decided.evictions] == ["r1-0"]
    assert [plan.task.name for plan in decided.plans] == ["w-0"]
    assert audit.drift(made.seen) == []


def test_admin_access_takes_nothing() -> None:
    made = claimed({"n": numbered(1)})
    made.seen.put_claim(claim("watch", request(every=True, admin=True)))
    made.seen.put_claim(claim("work"))
    using(made, "w", "work")
    using(made, "a", "watch", created=9.0)
    made.run()
    assert got(made) == {"work": ["gpu-0"], "watch": ["gpu-0"]}
    assert made.session.queues["q"].allocated[2] == 1000


@pytest.mark.parametrize("count", [0, -3])
def test_absurd_counts_are_refused(count: int) -> None:
    made = claimed({"n": numbered(2)})
    made.seen.put_claim(claim("c", request(count)))
    using(made, "j", "c")
    made.run()
    assert made.where() == {}
    assert f"asks for {count} devices" in made.engine.explain(("ns", "j"))[0].message


TAINT = specs.Taint(key="broken", value="yes", effect="NoExecute")


@pytest.mark.parametrize(
    ("taint", "toleration", "starts"),
    [
        (TAINT, None, False),
        (TAINT, specs.Toleration(key="broken", operator="Exists"), True),
        (TAINT, specs.Toleration(key="broken", value="yes", effect="NoExecute"), True),
        (TAINT, specs.Toleration(key="broken", value="no"), False),
        (TAINT, specs.Toleration(key="broken", value="yes", effect="NoSchedule"), False),
        (specs.Taint(key="broken", effect="NoSchedule"), None, False),
        (specs.Taint(key="watched", effect="None"), None, True),
    ],
)
def test_taints_of_devices(
    taint: specs.Taint, toleration: specs.Toleration | None, starts: bool
) -> None:
    made = claimed({"n": [device("gpu-0", taints=(taint,))]})
    made.seen.put_claim(claim("c", request(tolerations=(toleration,) if toleration else ())))
    using(made, "j", "c")
    made.run()
    assert ("j-0" in made.where()) is starts


def test_all_devices_are_not_had_while_one_is_tainted() -> None:
    made = claimed({"n": [device("gpu-0"), device("gpu-1", taints=(TAINT,))]})
    made.seen.put_claim(claim("c", request(every=True)))
    made.seen.put_claim(claim("d", request(1)))
    using(made, "j", "c")
    using(made, "k", "d", created=2.0)
    made.run()
    assert got(made) == {"d": ["gpu-0"]}


MEMORY = f"{GPU}/memory"


def part(amount: int, **fields: Any) -> device_specs.DeviceRequest:
    return request(capacity=(("memory", amount),), **fields)


def sharing(name: str = "gpu-0", memory: int = 80, **fields: Any) -> device_specs.Device:
    return device(name, capacity={"memory": memory}, shareable=True, **fields)


def test_parts_of_a_device_add_up_to_it() -> None:
    """80 hold 40 + 30, not 20 more; queues are charged the part of the device."""
    made = claimed({"n": [sharing()]})
    for number, amount in enumerate((40, 30, 20, 10)):
        made.seen.put_claim(claim(f"c{number}", part(amount)))
        using(made, f"j{number}", f"c{number}", created=float(number))
    made.run()
    assert set(made.where()) == {"j0-0", "j1-0", "j3-0"}
    assert made.session.queues["q"].allocated[2] == 1000
    given = {n: d for bind in made.session.decisions.binds for n, d in bind.devices}
    assert given["c1"][0].consumed == ((MEMORY, 30),)


def test_limits_count_parts() -> None:
    made = claimed({"n": [sharing(), sharing("gpu-1")]})
    made.queue("q", 1, limit=1)
    for number in range(3):
        made.seen.put_claim(claim(f"c{number}", part(40)))
        using(made, f"j{number}", f"c{number}", created=float(number))
    made.run()
    assert set(made.where()) == {"j0-0", "j1-0"}
    assert made.engine.explain(("ns", "j2"))[0].code == "OverLimit"


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        (device_specs.CapacityPolicy(), 33, 33),
        (device_specs.CapacityPolicy(), None, 80),
        (device_specs.CapacityPolicy(default=8), None, 8),
        (device_specs.CapacityPolicy(values=(10, 20, 40)), 11, 20),
        (device_specs.CapacityPolicy(values=(10, 20, 40)), 41, None),
        (device_specs.CapacityPolicy(least=10), 3, 10),
        (device_specs.CapacityPolicy(least=10, step=8), 11, 18),
        (device_specs.CapacityPolicy(least=10, step=8), 18, 18),
        (device_specs.CapacityPolicy(least=10, step=8, most=20), 19, None),
        (device_specs.CapacityPolicy(), 81, None),
    ],
)
def test_policies_round_parts(
    policy: device_specs.CapacityPolicy, asked: int | None, taken: int | None
) -> None:
    made = claimed({"n": [sharing(policies={MEMORY: policy})]})
    made.seen.put_claim(claim("c", request() if asked is None else part(asked)))
    using(made, "j", "c")
    made.run()
    consumed = [
        item.consumed
        for bind in made.session.decisions.binds
        for _, items in bind.devices
        for item in items
    ]
    assert consumed == ([] if taken is None else [((MEMORY, taken),)])


def test_a_capacity_asks_for_a_large_enough_device() -> None:
    made = claimed(
        {"n": [device("small", capacity={"memory": 40}), device("big", capacity={"memory": 80})]}
    )
    made.seen.put_claim(claim("c", part(50)))
    made.seen.put_claim(claim("d", part(50)))
    using(made, "j", "c")
    using(made, "k", "d", created=2.0)
    made.run()
    assert got(made) == {"c": ["big"]}
    assert made.session.queues["q"].allocated[2] == 1000


def test_one_request_may_have_two_parts_of_one_device_unless_they_must_differ() -> None:
    for names, devices in (((), ["gpu-0", "gpu-0"]), (("id",), ["gpu-0", "gpu-1"])):
        made = claimed({"n": [sharing(f"gpu-{i}", attributes={"id": i}) for i in range(2)]})
        differ = tuple((f"{GPU}/{name}", ()) for name in names)
        made.seen.put_claim(claim("c", part(40, count=2), differ=differ))
        using(made, "j", "c")
        made.seen.put_claim(claim("d", part(40)))
        using(made, "k", "d", created=2.0)
        made.apply(made.run())
        assert got(made)["c"] == devices
        # What is had twice is had, and found again in the next cycle: 80 + 40 fit, 40 are left.
        made.seen.put_claim(claim("e", part(40)))
        using(made, "l", "e", created=3.0)
        made.run()
        assert "l-0" in made.where()
        assert (made.session.state.idle >= 0).all()


def test_parts_that_were_given_stay_given_and_come_back() -> None:
    made = claimed({"n": [sharing()]})
    held = device_specs.Allocated(GPU, "n", "gpu-0", "gpus", False, ((MEMORY, 60),))
    made.seen.put_claim(claim("held", part(60), allocated=(held,)))
    made.seen.put_claim(claim("new", part(30)))
    using(made, "r", "held", on="n")
    using(made, "j", "new")
    made.run()
    assert "j-0" not in made.where()
    assert made.session.queues["q"].allocated[2] == 750
    made.seen.drop_task("ns/r-0")
    made.seen.drop_claim(("ns", "held"))
    made.run()
    assert got(made) == {"new": ["gpu-0"]}
    assert audit.drift(made.seen) == []


def test_a_part_that_is_being_left_is_waited_for() -> None:
    made = claimed({"n": [sharing()]})
    made.queue("rich", 0)
    made.queue("q", 1)
    held = device_specs.Allocated(GPU, "n", "gpu-0", "gpus", False, ((MEMORY, 60),))
    made.seen.put_claim(claim("held", part(60), queue="rich", allocated=(held,)))
    made.seen.put_claim(claim("new", part(30)))
    made.job("r", "rich", gpus=0, constraints=specs.Constraints(claims=("held",)), on="n")
    using(made, "j", "new")
    decided = made.run()
    assert [eviction.task.name for eviction in decided.evictions] == ["r-0"]
    assert [plan.task.name for plan in decided.plans] == ["j-0"]


def test_devices_of_drivers_are_for_claims() -> None:
    """A plain GPU comes from a device plugin; a node whose GPUs are claimed has none."""
    made = claimed({"n": numbered(2)})
    made.job("plain", "q", gpus=1)
    made.seen.put_claim(claim("c", request(2)))
    using(made, "j", "c", created=9.0)
    made.run()
    assert made.where() == {"j-0": "n"}
    reason = made.engine.explain(("ns", "plain"))[0]
    assert reason.details["nodes"] == {"node(s) had no devices of the requested kind": 1}
