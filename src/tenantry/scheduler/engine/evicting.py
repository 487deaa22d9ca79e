"""What reclaim, preempt and consolidation share: which jobs try, what they skip, and the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import (
    devices,
    job_order,
    placing,
    reasons,
    resources,
    signatures,
    solver,
    starting,
    victim_order,
)

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Rows = list[int]


def eligible(
    session: sessions.Session,
    action: str,
    *,
    only: Callable[[sessions.JobState], bool] | None = None,
    per_queue: bool = True,
) -> Iterator[tuple[sessions.JobState, Rows, signatures.Failures] | None]:
    """Yield the jobs that may cause evictions, in order, with the tasks to place.

    None in between means that nothing was found so far, and that others may run.
    """
    order = yield from job_order.of_pending(
        session,
        action,
        lambda job: (only is None or only(job)) and not _delayed(session, job),
    )
    failures = signatures.Failures(session, per_queue=per_queue)
    prepared = False
    while (served := order.pop()) is not None:
        job, rows = served
        if rows and not failures.hopeless(job, rows) and _invariants_hold(session, job, rows):
            if not prepared:
                prepared = True
                yield from victim_order.prepare(session)
            yield job, rows, failures
        else:
            yield None


def attempt(search: solver.Search, failures: signatures.Failures) -> placing.Steps[bool]:
    """Search and commit; remember the failure otherwise. A fault concerns this job alone."""
    session = search.session
    try:
        return (yield from _attempt(search, failures))
    except Exception as problem:
        session.recover(search.job, problem)
        return False


def _attempt(search: solver.Search, failures: signatures.Failures) -> placing.Steps[bool]:
    session = search.session
    found = yield from search.run()
    if found is None:
        failures.add(search.job, search.rows)
        session.refuse(
            search.job,
            reasons.Reason(
                reasons.NO_VICTIMS,
                f"{search.action}: nobody whose leaving the rules allow would make room",
                {"action": search.action},
            ),
        )
        return False
    yield
    for row in found.evicted:
        victim = session.job_of(row)
        if victim is not None and len(victim.rows) > 1:
            leaf = session.leaf(victim)
            session.evictable.pop(leaf.name if leaf is not None else "", None)
    if found.all_started_now():
        # Nobody has to leave first. A mere plan would be made again and again, since the next
        # cycle would start the same pods and take them back.
        yield from found.outrank(search.job.key)
        return (yield from starting.attempt(session, search.job, search.rows))
    yield from found.commit(search.action, search.job.key)
    session.decisions.reasons.pop(search.job.key, None)
    return True


def allowed(
    session: sessions.Session,
    job: sessions.JobState,
    rows: Rows,
    tests: Iterable[Callable[[sessions.JobState, Rows], reasons.Reason | None]],
) -> bool:
    """Ask whether a job may look for victims, and note why not."""
    for test in tests:
        refused = test(job, rows)
        if refused is not None:
            session.refuse(job, refused)
            return False
    return True


def victims(
    session: sessions.Session,
    job: sessions.JobState,
    filters: Iterable[Callable[[sessions.JobState], bool]],
    *,
    own_queue: bool = False,
) -> Callable[[set[int]], Iterable[victim_order.Unit]]:
    """Return the iteration over a job's victims that `solver.Search` asks for."""
    tests = list(filters)

    def candidate(victim: sessions.JobState) -> bool:
        return victim is not job and all(test(victim) for test in tests)

    only = session.leaf(job) if own_queue else None
    return lambda gone: victim_order.VictimOrder(session, candidate, gone=gone, only=only)


def _delayed(session: sessions.Session, job: sessions.JobState) -> bool:
    spec = job.spec
    assert spec is not None
    if spec.preemption_delay <= 0:
        return False
    since = spec.created if spec.last_eviction is None else max(spec.created, spec.last_eviction)
    until = since + spec.preemption_delay
    if session.now >= until:
        return False
    session.refuse(
        job,
        reasons.Reason(
            reasons.DELAYED,
            f"the job may cause evictions in {until - session.now:.0f} s",
            {"until": until},
            "wait, or lower its preemption delay",
        ),
    )
    return True


def _invariants_hold(
    session: sessions.Session, job: sessions.JobState, rows: Sequence[int]
) -> bool:
    # Tasks of one shape share the verdict.
    distinct = {session.state.shape_of[row].index: row for row in rows}
    for predicate in session.points.pre_predicates:
        for row in distinct.values():
            refused = predicate(row)
            if refused:
                task = session.state.tasks[row]
                pod = f"{task.namespace}/{task.name}" if task is not None else ""
                session.refuse(
                    job,
                    reasons.Reason(
                        reasons.UNSCHEDULABLE,
                        f"Resources were not found for pod {pod} due to: {refused}",
                        {"pod": pod, "refused": refused},
                        "no eviction changes this; change the pod or what it refers to",
                    ),
                )
                return False
    return True


def free_gpus(session: sessions.Session) -> int:
    """Return the GPUs that are or become free, leftovers of shared ones included, in milli."""
    state = session.state
    whole = int(state.free[resources.GPU].clip(min=0).sum())
    for node, groups in state.groups.items():
        capacity = max(state.nodes.gpu_memory[node], 1)
        for group in groups.values():
            whole += max(devices.remaining(group, capacity), 0) * resources.MILLI // capacity
    return whole
