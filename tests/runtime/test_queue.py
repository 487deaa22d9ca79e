from __future__ import annotations

import asyncio
import collections

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from tenantry.runtime import errors, queue

KEYS = st.sampled_from("abcdef")
PRIORITIES = st.sampled_from([queue.LOW, 0, 10])


class QueueMachine(stateful.RuleBasedStateMachine):
    """Whatever is asked: every wanted key is handed out, and never to two workers."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.made()
        self.now = 0.0
        self.working: set[str] = set()
        self.due: set[str] = set()  # must be handed out now
        self.dirty: set[str] = set()  # must be handed out once done
        self.delayed: dict[str, float] = {}
        self.failures: collections.Counter[str] = collections.Counter()

    def made(self) -> queue.Queue[str]:
        return queue.Queue(first=0.5, longest=8.0)

    def may_begin(self, _key: str) -> bool:
        return True

    def _added(self, key: str) -> None:
        self.delayed.pop(key, None)
        (self.dirty if key in self.working else self.due).add(key)

    def _delay(self, key: str, seconds: float) -> None:
        if key not in self.due and key not in self.dirty:
            when = self.now + seconds
            self.delayed[key] = min(self.delayed.get(key, when), when)

    @stateful.rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: int) -> None:
        self.queue.add(key, self.now, priority)
        self._added(key)

    @stateful.rule(key=KEYS, seconds=st.sampled_from([0.0, 1.0, 3.0, 7.0]), priority=PRIORITIES)
    def add_after(self, key: str, seconds: float, priority: int) -> None:
        self.queue.add_after(key, seconds, self.now, priority)
        if seconds:
            self._delay(key, seconds)
        else:
            self._added(key)

    @stateful.rule(key=KEYS)
    def fail(self, key: str) -> None:
        self.failures[key] += 1
        expected = min(8.0, 0.5 * 2 ** (self.failures[key] - 1))
        assert self.queue.add_rate_limited(key, self.now) == expected
        self._delay(key, expected)

    @stateful.rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        del self.failures[key]

    @stateful.rule(seconds=st.sampled_from([0.25, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @stateful.rule()
    def get(self) -> None:
        for key, when in list(self.delayed.items()):
            if when <= self.now:
                self._added(key)
        key_or_none = self.queue.get(self.now)
        if key_or_none is None:
            assert not any(map(self.may_begin, self.due))
            return
        assert self.may_begin(key_or_none)
        assert key_or_none in self.due
        assert key_or_none not in self.working
        self.due.remove(key_or_none)
        self.working.add(key_or_none)

    @stateful.precondition(lambda self: self.working)
    @stateful.rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key, self.now)
        self.working.remove(key)
        if key in self.dirty:
            self.dirty.remove(key)
            self.due.add(key)

    @stateful.invariant()
    def knows_the_next_deadline(self) -> None:
        deadline = self.queue.next_deadline()
        assert deadline == min(self.delayed.values(), default=None)

    def teardown(self) -> None:
        # Nothing is lost: with time and idle workers every wanted key comes out, once.
        wanted = self.due | self.dirty | set(self.delayed)
        for key in sorted(self.working):
            self.queue.done(key, self.now)
        seen = []
        while (key_or_none := self.queue.get(self.now + 1000)) is not None:
            seen.append(key_or_none)
            self.queue.done(key_or_none, self.now + 1000)
        assert sorted(seen) == sorted(wanted)


class FairMachine(QueueMachine):
    """The same with two groups, each of which has two workers at most."""

    def made(self) -> queue.Queue[str]:
        return queue.Queue(first=0.5, longest=8.0, group=lambda key: key < "d", share=2)

    def may_begin(self, key: str) -> bool:
        return sum((each < "d") is (key < "d") for each in self.working) < 2


QueueMachine.TestCase.settings = hypothesis.settings(stateful_step_count=40)
FairMachine.TestCase.settings = QueueMachine.TestCase.settings
TestQueueMachine = QueueMachine.TestCase
TestFairMachine = FairMachine.TestCase


def drain(machine: queue.Queue[str], now: float = 0.0) -> list[str]:
    found = []
    while (key := machine.get(now)) is not None:
        found.append(key)
        machine.done(key, now)
    return found


def test_serves_priorities_first_and_otherwise_in_order() -> None:
    machine: queue.Queue[str] = queue.Queue()
    for key, priority in (("a", queue.LOW), ("b", 0), ("c", queue.LOW), ("d", 0), ("e", 5)):
        machine.add(key, 0.0, priority)

    assert drain(machine) == ["e", "b", "d", "a", "c"]


def test_a_higher_priority_moves_a_waiting_key_and_a_lower_one_does_not() -> None:
    machine: queue.Queue[str] = queue.Queue()
    for key in ("a", "b"):
        machine.add(key, 0.0, queue.LOW)
    machine.add("c", 0.0)
    machine.add("b", 0.0)
    machine.add("c", 0.0, queue.LOW)

    assert drain(machine) == ["c", "b", "a"]


def test_tells_how_long_a_key_waited() -> None:
    machine: queue.Queue[str] = queue.Queue()
    machine.add("a", 1.0)
    machine.add("a", 2.0, 10)

    assert machine.get(5.0) == "a"
    assert machine.waited == 4.0


def test_done_without_get_is_a_defect_that_shows() -> None:
    with pytest.raises(ValueError, match="no worker"):
        queue.Queue[str]().done("a", 0.0)


def test_keys_delayed_over_and_over_do_not_pile_up() -> None:
    machine: queue.Queue[str] = queue.Queue()
    for turn in range(10_000):
        machine.add_after("a", 10_000.0 - turn, 0.0)

    assert len(machine._heap) < 100
    assert machine.next_deadline() == 1.0


def test_the_delay_of_a_key_that_fails_for_ever_stays_finite() -> None:
    machine: queue.Queue[str] = queue.Queue(first=0.005, longest=1000.0)
    delays = [machine.add_rate_limited("a", 0.0) for _ in range(2000)]

    assert delays[:3] == [0.005, 0.01, 0.02]
    assert delays[-1] == 1000.0


@pytest.mark.looptime
async def test_workers_get_delayed_keys_when_they_are_due() -> None:
    loop = asyncio.get_running_loop()
    work: queue.WorkQueue[str] = queue.WorkQueue()
    got: list[tuple[str, float]] = []

    async def worker() -> None:
        while True:
            try:
                key = await work.get()
            except errors.ClosedError:
                return
            got.append((key, round(loop.time(), 3)))
            # Never done: the other worker must take the later keys by itself.
            if key != "a":
                work.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(2)]
    work.add_after("b", 20.0)
    work.add_after("a", 10.0)
    await asyncio.sleep(15)
    work.add("c")
    await asyncio.sleep(15)
    work.close()
    await asyncio.gather(*workers)

    assert got == [("a", 10.0), ("c", 15.0), ("b", 20.0)]


@pytest.mark.looptime
async def test_a_wake_up_of_a_cancelled_waiter_reaches_another() -> None:
    work: queue.WorkQueue[str] = queue.WorkQueue()
    first, second = (asyncio.create_task(work.get()) for _ in range(2))
    await asyncio.sleep(0)
    work.add("a")
    first.cancel()

    assert await asyncio.wait_for(second, 1) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.looptime
async def test_a_key_added_during_work_comes_again_afterwards() -> None:
    work: queue.WorkQueue[str] = queue.WorkQueue()
    work.add("a")
    assert await work.get() == "a"
    work.add("a")
    again = asyncio.create_task(work.get())
    await asyncio.sleep(1)
    assert not again.done()
    work.done("a")

    assert await again == "a"
    assert not work.idle
    work.done("a")
    assert work.idle


async def test_a_closed_queue_hands_out_nothing() -> None:
    work: queue.WorkQueue[str] = queue.WorkQueue()
    waiting = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add_after("b", 100.0)
    work.close()
    work.add("a")

    with pytest.raises(errors.ClosedError):
        await waiting
    with pytest.raises(errors.ClosedError):
        await work.get()
