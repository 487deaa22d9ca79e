"""Properties of whole cycles over generated clusters."""

from __future__ import annotations

import random
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from tenantry.scheduler.engine import audit, capacity, decisions, gangs, selection, status, tables
from tenantry.scheduler.scenarios import world

SMALL = hypothesis.settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)

queues = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 4, 8, -1]),
        st.sampled_from([-1, -1, -1, 2, 4, 8]),
        st.sampled_from([0, 1, 3]),
        st.sampled_from([100, 100, 200]),
    ),
    min_size=1,
    max_size=4,
)
jobs = st.lists(
    st.fixed_dictionaries(
        {
            "queue": st.integers(0, 3),
            "pods": st.integers(1, 4),
            "gpus": st.sampled_from([0, 1, 1, 2, 4, 0.5, 0.25]),
            "elastic": st.booleans(),
            "on": st.sampled_from([-1, -1, 0, 1, 2]),
            "priority": st.sampled_from([50, 50, 75, 100]),
            "created": st.integers(0, 5),
        }
    ),
    max_size=12,
)
clusters = st.fixed_dictionaries({"nodes": st.integers(1, 4), "queues": queues, "jobs": jobs})

#: q0's second gang starts, and then q2's job is due the room: nobody has to leave for it.
OUTRANKED = {
    "nodes": 1,
    "queues": [(0, -1, 1, 100), (0, -1, 0, 100), (0, -1, 1, 100)],
    "jobs": [
        {
            "queue": queue,
            "pods": pods,
            "gpus": gpus,
            "elastic": False,
            "on": -1,
            "priority": priority,
            "created": 0,
        }
        for queue, pods, gpus, priority in [
            *[(0, 1, 0, 50)] * 4,
            (0, 1, 1, 50),
            *[(0, 2, 1, 75)] * 2,
            (2, 1, 1, 50),
            (2, 2, 4, 75),
        ]
    ],
}


def build(given: dict[str, Any], order: random.Random | None = None) -> world.World:
    """Return a cluster; running jobs are kept only where they fit."""
    made = world.World()
    room = {f"n{i}": 4.0 for i in range(given["nodes"])}
    steps: list[Any] = [lambda name=name: made.node(name, gpus=4) for name in room]
    for i, (quota, limit, weight, priority) in enumerate(given["queues"]):
        steps.append(
            lambda i=i, q=quota, m=limit, w=weight, p=priority: made.queue(
                f"q{i}", q, limit=m, weight=w, priority=p, created=float(i)
            )
        )
    for i, job in enumerate(given["jobs"]):
        node = f"n{job['on']}" if job["on"] >= 0 else ""
        whole = job["gpus"] == int(job["gpus"])
        if node:
            need = job["pods"] * (job["gpus"] if whole else 1)
            if room.get(node, -1.0) < need:
                node = ""
            else:
                room[node] -= need
        steps.append(
            lambda i=i, job=job, node=node: made.job(
                f"j{i:02d}",
                f"q{job['queue'] % len(given['queues'])}",
                pods=job["pods"],
                gpus=job["gpus"],
                minimum=1 if job["elastic"] else None,
                on=node,
                priority=job["priority"],
                created=float(job["created"]),
            )
        )
    if order is not None:
        order.shuffle(steps)
    for step in steps:
        step()
    return made


def picture(made: world.World) -> list[Any]:
    decided = made.session.decisions
    return [
        [(b.task.uid, b.node, b.groups) for b in decided.binds],
        [(e.task.uid, e.node, e.action) for e in decided.evictions],
        [(p.task.uid, p.node) for p in decided.plans],
    ]


def at_rest(made: world.World) -> decisions.Decisions | None:
    """Carry out cycles until one starts and evicts nobody; None when that takes more than 12."""
    for _ in range(12):
        decided = made.run()
        if not decided.binds and not decided.evictions:
            return decided
        made.apply(decided)
    return None


@SMALL
@hypothesis.given(clusters, st.integers(0, 99))
def test_order_of_insertion_does_not_matter(given: dict[str, Any], seed: int) -> None:
    one, two = build(given), build(given, random.Random(seed))
    one.run()
    two.run()
    assert picture(one) == picture(two)
    assert not one.session.decisions.errors


@SMALL
@hypothesis.given(clusters)
def test_nothing_is_used_twice(given: dict[str, Any]) -> None:
    made = build(given)
    made.run()
    state = made.session.state
    assert not made.session.decisions.errors
    assert (state.idle >= 0).all()
    assert (state.free >= 0).all()
    for node, groups in state.groups.items():
        for group in groups.values():
            assert group[0] <= state.nodes.gpu_memory[node]


@SMALL
@hypothesis.given(clusters)
def test_no_queue_passes_its_limit(given: dict[str, Any]) -> None:
    made = build(given)
    before = {name: list(queue.allocated) for name, queue in _opened(made).items()}
    made.run()
    for name, queue in made.session.queues.items():
        for r, limit in enumerate(queue.limit):
            if limit >= 0:
                assert queue.allocated[r] <= max(limit, before[name][r])


@SMALL
@hypothesis.given(clusters)
def test_non_preemptible_work_stays_within_quota(given: dict[str, Any]) -> None:
    made = build(given)
    before = {name: list(queue.allocated_fixed) for name, queue in _opened(made).items()}
    made.run()
    for name, queue in made.session.queues.items():
        for r, quota in enumerate(queue.quota):
            if quota >= 0:
                assert queue.allocated_fixed[r] <= max(quota, before[name][r])


@SMALL
@hypothesis.given(clusters)
def test_gangs_start_whole_or_not_at_all(given: dict[str, Any]) -> None:
    made = build(given)
    made.run()
    state = made.session.state
    evicted = {eviction.task.uid for eviction in made.session.decisions.evictions}
    for job in made.seen.jobs.values():
        rows = [row for leaf in job.leaves for row in leaf.rows]
        if any(state.tasks[row].uid in evicted for row in rows):  # type: ignore[union-attr]
            continue
        for leaf in job.leaves:
            active = state.active(leaf.index)
            assert active == 0 or active >= leaf.minimum


@SMALL
@hypothesis.given(clusters)
@hypothesis.example(OUTRANKED)
def test_work_conserving(given: dict[str, Any]) -> None:
    """What stays pending does not fit, or its queue may not have it; either way it is told."""
    made = build(given)
    made.run()
    session = made.session
    state = session.state
    for job in session.candidates():
        if any(state.active(leaf.index) for leaf in job.leaves):
            continue
        assert session.decisions.reasons.get(job.key), job.key
        rows = selection.next_tasks(session, job)
        leaf = session.leaf(job)
        assert leaf is not None
        shape = state.shape_of[rows[0]]
        # Room that evictions make beyond what was planned is given away in the next cycle.
        if len(rows) > 1 or shape.shared or session.decisions.evictions:
            continue
        if capacity.check(leaf, session.charges(rows), preemptible=job.preemptible) is None:
            assert not (state.free >= shape.vector[:, None]).all(axis=0).any(), job.key


@SMALL
@hypothesis.given(clusters)
@hypothesis.example(OUTRANKED)
def test_plans_wait_for_somebody_to_leave(given: dict[str, Any]) -> None:
    """A plan where nobody starts or leaves would be made again in each cycle, for ever."""
    decided = at_rest(build(given))
    assert decided is None or not decided.plans


def test_a_job_that_is_due_the_room_of_others_starts_gets_it_at_once() -> None:
    made = build(OUTRANKED)
    decided = made.run()
    started = sorted(bind.task.name for bind in decided.binds)
    # All four GPUs: the first gang, q2's job, and who fits beside it.
    assert started == ["j00-0", "j01-0", "j02-0", "j03-0", "j04-0", "j05-0", "j05-1", "j07-0"]
    assert not decided.plans
    assert not decided.evictions
    assert {reason.code for reason in decided.reasons["ns", "j06"]} >= {"Outranked"}
    assert ("ns", "j04") not in decided.reasons


@SMALL
@hypothesis.given(clusters)
def test_evictions_serve_a_job_that_is_planned(given: dict[str, Any]) -> None:
    made = build(given)
    made.run()
    decided = made.session.decisions
    planned = {plan.task.job for plan in decided.plans}
    for eviction in decided.evictions:
        if eviction.action != "stalegangeviction":
            assert eviction.evictor in planned


@SMALL
@hypothesis.given(clusters)
def test_no_victim_was_unneeded(given: dict[str, Any]) -> None:
    """A victim that still fits where it was would not have had to leave."""
    made = build(given)
    made.run()
    session = made.session
    state = session.state
    for eviction in session.decisions.evictions:
        row = made.seen.row_of[eviction.task.uid]
        job = session.job_of(row)
        if job is None or len(job.rows) > 1 or state.status[row] != status.RELEASING:
            continue
        shape, node, leaf = state.shape_of[row], state.node[row], session.leaf(job)
        if shape.shared or leaf is None or capacity.within_limit(leaf, session.charges([row])):
            continue
        assert not (state.free[:, node] >= shape.vector).all(), eviction


@SMALL
@hypothesis.given(clusters)
def test_shares_sum_to_capacity(given: dict[str, Any]) -> None:
    made = build(given)
    session = _opened_session(made)
    root = session.queues[world.ROOT]
    for r in range(3):
        children = sum(child.fair[r] for child in root.children)
        quotas = sum(
            min(child.request[r], root.fair[r] if child.quota[r] < 0 else child.quota[r])
            for child in root.children
        )
        unit = (1, 1, 1000)[r]
        assert children <= max(root.fair[r], quotas) + unit * len(root.children)
        hungry = [
            child
            for child in root.children
            if child.weight[r] > 0
            and child.fair[r] < child.request[r]
            and (child.limit[r] < 0 or child.fair[r] < child.limit[r])
        ]
        if hungry:
            assert children >= root.fair[r]


@SMALL
@hypothesis.given(clusters)
def test_settles_without_ping_pong(given: dict[str, Any]) -> None:
    assert at_rest(build(given)) is not None, "still busy after 12 cycles"


@SMALL
@hypothesis.given(clusters)
def test_the_observed_state_is_never_touched(given: dict[str, Any]) -> None:
    made = build(given)
    made.seen.settle()
    before = audit.content(made.seen)
    made.run()
    assert audit.content(made.seen) == before


@SMALL
@hypothesis.given(clusters, st.integers(0, 999))
def test_observed_equals_rebuilt(given: dict[str, Any], seed: int) -> None:
    """After any sequence of events the state is what a fresh fold of the last objects gives."""
    rng = random.Random(seed)
    made = build(given, rng)
    seen = made.seen
    names = list(seen.tables.nodes.by_name)
    for _ in range(15):
        step = rng.randrange(6)
        tasks = [task for task in seen.tables.tasks if task is not None]
        keys = list(seen.jobs)
        if step == 0 and tasks:
            seen.drop_task(rng.choice(tasks).uid)
        elif step == 1 and keys:
            seen.drop_job(rng.choice(keys))
        elif step == 2 and names:
            seen.drop_node(rng.choice(names))
        elif step == 3:
            made.node(rng.choice(["n0", "n1", "m0"]), gpus=rng.choice([4, 8]))
        elif step == 4:
            made.queue(rng.choice(["q0", "q9"]), rng.choice([1, 4]))
            seen.drop_queue(rng.choice(["q1", "q9"]))
        else:
            made.job(f"x{rng.randrange(3)}", "q0", pods=rng.randrange(1, 3))
    assert audit.drift(seen) == []


def _opened_session(made: world.World) -> Any:
    from tenantry.scheduler.engine import session

    opened = session.Session(made.seen, made.engine.config, now=world.NOW)
    for _ in opened.opening():
        pass
    return opened


def _opened(made: world.World) -> Any:
    return _opened_session(made).queues


def test_below_minimum_uses_thresholds() -> None:
    root = gangs.Group("", 1)
    root.children = [gangs.PodSet("a", 1), gangs.PodSet("b", 1)]
    state = tables.Tables()
    for leaf in gangs.podsets(root):
        leaf.index = len(state.podset_account)
        state.podset_account.append(0)
        state.counts.extend([0] * status.COUNT)
    assert gangs.below_minimum(root, state)
    state.counts[status.RUNNING] = 1
    assert not gangs.below_minimum(root, state)
    assert np.array_equal(np.frombuffer(state.counts, np.int32)[:1], [0])
