"""Give each queue its due: fair shares, the order of queues, limits, quotas and legal reclaims.

Arguments: `kValue` (strength of historical usage, default 1), `relcaimerSaturationMultiplier`
(KAI's spelling; at least 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tenantry.scheduler.engine import (
    capacity,
    division,
    humanise,
    placing,
    plugin,
    queue_tree,
    queues,
    reasons,
    reclaimable,
    resources,
    session,
    shapes,
    solver,
    status,
)

_UNITS = (1, 1, queues.GPU_UNIT)
#: Tasks with claims looked at between two yields.
_STEP = 256


class Proportion:
    """Holds the settings; everything else is in the session's queues."""

    name = "proportion"

    def __init__(self, k: float, multiplier: float) -> None:
        self._k = max(k, 0.0)
        self._multiplier = max(multiplier, 1.0)

    def open(self, session: session.Session) -> Iterator[None]:
        """Compute shares and register orders and checks, in steps where claims are many."""
        session.total = totals(session)
        yield from set_requests(session)
        share_out(session, self._k)
        points = session.points
        total = session.total
        points.queue_orders.append(
            lambda left, right, left_job, right_job: queues.compare(
                left, right, left_job, right_job, total, units=_UNITS
            )
        )
        points.job_checks.append(lambda job, rows: _within(session, job, rows))
        points.node_checks.append(lambda shape: _node_check(session, shape))
        points.may_reclaim.append(lambda job, rows: _may_reclaim(session, job, rows))
        points.may_preempt.append(lambda job, rows: _may_preempt(session, job, rows))
        points.reclaim_victims.append(lambda job, rows: _victim_filter(session, job, rows))
        points.reclaim_validators.append(lambda outcome: _legal(session, outcome, self._multiplier))


def totals(session: session.Session) -> list[queues.Amount]:
    """Return what the usable nodes offer, less what pods of other schedulers hold there."""
    state = session.state
    size = len(state.nodes.names)
    usable = state.nodes.usable[:size]
    amounts = (state.alloc[:, usable]).sum(axis=1)
    for row in session.observed.foreign:
        node = state.node[row]
        task = state.tasks[row]
        if node >= 0 and usable[node] and task is not None and not task.reservation:
            if status.IS_ACTIVE[state.status[row]]:
                amounts = amounts - resources.padded(state.shape_of[row].vector, len(amounts))
    gpus = int(amounts[resources.GPU])
    for name, row in state.dimensions.index.items():
        gpus += resources.mig_weight(name) * int(amounts[row])
    total: list[queues.Amount] = [
        int(amounts[resources.CPU]),
        int(amounts[resources.MEMORY]),
        gpus,
    ]
    for name in state.extras:
        if name.startswith("gpu:"):
            product = [
                node
                for node in range(size)
                if usable[node] and state.nodes.products[node] == name[4:]
            ]
            total.append(int(state.alloc[resources.GPU, product].sum()))
        else:
            known = state.dimensions.index.get(name)
            total.append(0 if known is None else int(amounts[known]))
    return total


def set_requests(session: session.Session) -> Iterator[None]:
    """Set what each queue holds and waits for, roll-up included."""
    width = len(session.total)
    by_index = session.observed.shapes_by_index
    for account, ledger in session.observed.ledgers.items():
        leaf = queue_tree.of_account(session.queues, account)
        if leaf is None:
            continue
        waiting = list(ledger.pending)
        for index, number in ledger.memory.items():
            waiting[2] += number * by_index[index].gpus_on(session.smallest_gpu)
        for level in leaf.path():
            for r in range(width):
                level.request[r] += waiting[r]
    yield from _request_claims(session)
    for queue in session.queues.values():
        for r in range(width):
            queue.request[r] += queue.allocated[r]


def _request_claims(session: session.Session) -> Iterator[None]:
    """Count the GPUs that pending tasks ask for through claims, each claim once."""
    state = session.state
    asked: dict[tuple[str, str], int] = {}
    claimed: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for number, row in enumerate(sorted(session.observed.claiming)):
        job = session.job_of(row)
        if job is not None and state.status[row] == status.PENDING:
            known = claimed.setdefault(job.account, set())
            asked[job.account] = asked.get(job.account, 0) + session.claimed(row, known)
        if number % _STEP == _STEP - 1:
            yield
    for account, gpus in asked.items():
        leaf = queue_tree.of_account(session.queues, account)
        if leaf is not None:
            for level in leaf.path():
                level.request[2] += gpus


def share_out(session: session.Session, k: float) -> None:
    """Divide the cluster among the top queues, and each queue's share among its children."""
    levels = [(session.roots, session.total)]
    while levels:
        siblings, amounts = levels.pop()
        for r in queues.FAIR:
            division.divide(siblings, r, amounts[r], k=k, unit=_UNITS[r])
        for queue in siblings:
            for r in range(len(queues.FAIR), len(queue.fair)):
                queue.fair[r] = queues.UNLIMITED
            queue.refresh_share()
            if queue.children:
                levels.append((queue.children, queue.fair))


def _within(
    session: session.Session, job: plugin.JobState, rows: Sequence[int]
) -> reasons.Reason | None:
    queue = session.leaf(job)
    if queue is None:
        return reasons.Reason(reasons.NO_QUEUE, "the queue does not exist")
    request = session.charges(rows)
    refusal = capacity.check(queue, request, preemptible=job.preemptible)
    return None if refusal is None else explain(session, refusal, request)


def _node_check(session: session.Session, shape: shapes.Shape) -> plugin.NodeCheck | None:
    """GPU memory is a different part of a GPU on different nodes: check where it matters."""
    state = session.state
    if shape.kind != shapes.MEMORY and not any(e.startswith("gpu:") for e in state.extras):
        return None

    def check(row: int, node: int) -> reasons.Reason | None:
        job = session.job_of(row)
        queue = session.leaf(job) if job is not None else None
        if job is None or queue is None:
            return None
        request = list(state.charge(shape, node))
        refusal = capacity.check(queue, request, preemptible=job.preemptible)
        return None if refusal is None else explain(session, refusal, request)

    return check


def explain(
    session: session.Session, refusal: capacity.Refusal, request: Sequence[queues.Amount]
) -> reasons.Reason:
    """Put a refusal into the words that users of KAI know."""
    names = (*resources.ACCOUNTED, *session.state.extras)
    resource = names[refusal.resource]
    show = humanise.amount
    queue = refusal.queue
    details = {
        "queue": queue.name,
        "resource": resource,
        "requested": refusal.requested,
        "bound": refusal.bound,
        "allocated": refusal.allocated,
        "request": dict(zip(names, request, strict=False)),
        "quota": dict(zip(names, queue.quota, strict=False)),
        "limit": dict(zip(names, queue.limit, strict=False)),
    }
    if refusal.reason == capacity.OVER_LIMIT:
        message = (
            f"{queue.title} quota has reached the allowable limit of {humanise.title(resource)}. "
            f"Limit is {show(resource, refusal.bound)}, currently "
            f"{show(resource, refusal.allocated)} allocated and workload requested "
            f"{show(resource, refusal.requested)}"
        )
        remedy = f"raise the {resource} limit of queue {queue.name} or wait for its jobs to end"
    else:
        message = (
            "Non-preemptible workload is over quota. Workload requested "
            f"{show(resource, refusal.requested)}, but {queue.title} quota is "
            f"{show(resource, refusal.bound)}, while {show(resource, refusal.allocated)} are "
            "already allocated for non-preemptible pods. "
            "Use a preemptible workload to go over quota."
        )
        remedy = "make the job preemptible or raise the quota"
    return reasons.Reason(refusal.reason, message, details, remedy)


def _may_reclaim(
    session: session.Session, job: plugin.JobState, rows: Sequence[int]
) -> reasons.Reason | None:
    queue = session.leaf(job)
    if queue is None:
        return reasons.Reason(reasons.NO_QUEUE, "the queue does not exist")
    request = session.charges(rows)
    if reclaimable.can_reclaim(queue, request, preemptible=job.preemptible):
        return None
    for r in queues.FAIR:
        if queues.over(queue.allocated[r] + request[r], queue.fair[r]):
            name = resources.ACCOUNTED[r]
            show = humanise.amount
            return reasons.Reason(
                reasons.OVER_FAIR_SHARE,
                f"queue {queue.title} may not reclaim: it holds {show(name, queue.allocated[r])} "
                f"and is due {show(name, queue.fair[r])}, the workload requests "
                f"{show(name, request[r])}",
                {
                    "queue": queue.name,
                    "resource": name,
                    "fair_share": queue.fair[r],
                    "allocated": queue.allocated[r],
                    "requested": request[r],
                },
                "wait until resources are free, or raise the queue's quota or weight",
            )
    refusal = capacity.within_quota(queue, request)
    return None if refusal is None else explain(session, refusal, request)


def _may_preempt(
    session: session.Session, job: plugin.JobState, rows: Sequence[int]
) -> reasons.Reason | None:
    queue = session.leaf(job)
    if queue is None or job.preemptible:
        return None
    request = session.charges(rows)
    refusal = capacity.within_quota(queue, request)
    return None if refusal is None else explain(session, refusal, request)


def _victim_filter(
    session: session.Session, job: plugin.JobState, rows: Sequence[int]
) -> Callable[[plugin.JobState], bool]:
    ours = session.leaf(job)
    request = session.charges(rows)
    verdicts: dict[tuple[str, str], bool] = {}

    def allowed(victim: plugin.JobState) -> bool:
        verdict = verdicts.get(victim.account)
        if verdict is None:
            theirs = session.leaf(victim)
            verdict = verdicts[victim.account] = (
                ours is not None
                and theirs is not None
                and reclaimable.may_be_victim(ours, request, theirs)
            )
        return verdict

    return allowed


def _legal(
    session: session.Session, outcome: solver.Outcome, multiplier: float
) -> placing.Steps[bool]:
    queue = session.leaf(outcome.job)
    if queue is None:
        return False
    chunks: list[tuple[queues.Queue, list[list[queues.Amount]]]] = []
    charged = 0
    for victim, parts in outcome.chunks(session):
        leaf = session.leaf(victim)
        if leaf is not None:
            if not chunks or chunks[-1][0] is not leaf:
                chunks.append((leaf, []))
            chunks[-1][1].extend(_charged(session, outcome, part) for part in parts)
        charged += len(parts)
        if charged > placing.PACE:
            charged = 0
            yield
    with outcome.before(session):
        return reclaimable.legal(
            queue,
            session.charges(outcome.rows),
            chunks,
            preemptible=outcome.job.preemptible,
            multiplier=multiplier,
        )


def _charged(
    session: session.Session, outcome: solver.Outcome, rows: Sequence[int]
) -> list[queues.Amount]:
    """Return what queues get back for victims, as charged where they were."""
    state = session.state
    amounts: list[queues.Amount] = [0] * len(session.total)
    for row in rows:
        shape = state.shape_of[row]
        charges = state.charge(shape, outcome.origin[row][1])
        amounts = [a + b for a, b in zip(amounts, charges, strict=True)]
        for claim in state.claims_of(row):
            if row == min(claim.users, default=row):
                amounts[2] += claim.gpus()
    return amounts


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with its `kValue` and saturation multiplier."""
    return Proportion(
        float(arguments.get("kValue", 1.0)),
        float(arguments.get("relcaimerSaturationMultiplier", 1.0)),
    )
