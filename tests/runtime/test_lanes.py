from __future__ import annotations

import asyncio

import pytest

from tenantry.runtime import controller, queue

Key = tuple[str, int]


def cluster_of(key: Key) -> str:
    return key[0]


def fair(share: int | None = None) -> queue.Queue[Key]:
    return queue.Queue(group=cluster_of, share=share)


def take(machine: queue.Queue[Key], number: int) -> list[Key]:
    found = []
    for _ in range(number):
        key = machine.get(0.0)
        assert key is not None
        machine.done(key, 0.0)
        found.append(key)
    return found


def test_a_key_waits_for_one_of_each_other_group_however_many_those_have() -> None:
    machine = fair()
    for number in range(10_000):
        machine.add(("noisy", number), 0.0)
    machine.add(("calm", 0), 0.0)
    machine.add(("calm", 1), 0.0)
    machine.add(("other", 0), 0.0)

    assert take(machine, 6) == [
        ("noisy", 0), ("calm", 0), ("other", 0), ("noisy", 1), ("calm", 1), ("noisy", 2),
    ]  # fmt: skip


def test_a_group_that_comes_back_again_and_again_does_not_overtake() -> None:
    machine = fair()
    for number in range(3):
        machine.add(("calm", number), 0.0)
    order = []
    for number in range(6):
        machine.add(("noisy", number), 0.0)  # each time it has been served, at once another
        order += take(machine, 1)

    # Never served twice in a row while the other waits.
    assert [group for group, _ in order] == ["calm", "noisy", "calm", "noisy", "calm", "noisy"]


def test_within_a_group_and_between_priorities_order_is_as_ever() -> None:
    machine = fair()
    machine.add(("a", 1), 0.0, queue.LOW)
    machine.add(("a", 2), 0.0)
    machine.add(("a", 3), 0.0)
    machine.add(("b", 1), 0.0, queue.LOW)
    machine.add(("b", 1), 0.0, 10)  # moved from its line into another

    assert take(machine, 4) == [("b", 1), ("a", 2), ("a", 3), ("a", 1)]
    assert machine.get(0.0) is None


def test_a_group_has_no_more_workers_than_its_share() -> None:
    machine = fair(share=2)
    for number in range(5):
        machine.add(("stuck", number), 0.0)
    machine.add(("calm", 0), 0.0, queue.LOW)

    assert [machine.get(0.0) for _ in range(2)] == [("stuck", 0), ("stuck", 1)]
    # What is more urgent may not begin, so that what is less urgent does.
    assert machine.get(0.0) == ("calm", 0)
    assert machine.get(0.0) is None
    machine.done(("stuck", 0), 0.0)
    assert machine.get(0.0) == ("stuck", 2)


@pytest.mark.parametrize(("share", "group"), [(0, cluster_of), (-1, cluster_of), (1, None)])
def test_a_share_that_makes_no_sense_is_refused(share: int, group: None) -> None:
    with pytest.raises(ValueError, match="share"):
        queue.Queue(group=group, share=share)


@pytest.mark.looptime
@pytest.mark.parametrize("share", [None, 3])
async def test_a_cluster_that_hangs_starves_nobody_where_shares_are_held(share: int | None) -> None:
    loop = asyncio.get_running_loop()
    served: list[float] = []

    async def reconcile(key: Key) -> None:
        if key[0] == "hangs":
            await asyncio.sleep(1000)
        served.append(loop.time())

    part: controller.Controller[Key] = controller.Controller(
        "sessions", reconcile, concurrency=4, group=cluster_of, share=share, timeout=60.0
    )
    for number in range(100):
        part.enqueue(("hangs", number))
    running = asyncio.create_task(part.run())
    await asyncio.sleep(5)
    for number in range(20):
        part.enqueue(("calm", number))
    await asyncio.sleep(1)
    # The counterproof: without a share nobody else is served until the hanging ones time out.
    assert len(served) == (20 if share else 0)
    part.stop()
    await running
