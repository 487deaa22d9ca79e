"""Make the queue tree of a session from specs; what hangs in the air is left out with a reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tenantry.scheduler.engine import errors, fold_jobs, queues, specs, validation
from tenantry.scheduler.engine import resources as rules

_FLAT_ROOT = "default"
#: No organisation is this deep; the tree is walked by recursion.
MOST_LEVELS = 64


def build(
    given: Mapping[str, specs.Queue],
    ledgers: Mapping[fold_jobs.Account, fold_jobs.Ledger],
    extras: tuple[str, ...],
    *,
    full_hierarchy: bool = True,
) -> tuple[dict[str, queues.Queue], dict[str, str]]:
    """Return queues by name, and reasons by name of those left out."""
    rejected: dict[str, str] = {}
    accepted: dict[str, specs.Queue] = {}
    for name in sorted(given):
        try:
            validation.queue(given[name])
        except errors.SetAside as problem:
            rejected[name] = str(problem)
        else:
            accepted[name] = given[name]
    if not full_hierarchy:
        accepted = _flattened(accepted)
    for name in sorted(accepted):
        reason = _broken_line(name, accepted)
        if reason:
            rejected[name] = reason
    resources = ("cpu", "memory", "gpu", *extras)
    tree: dict[str, queues.Queue] = {}
    for index, name in enumerate(sorted(set(accepted) - set(rejected))):
        tree[name] = _queue(accepted[name], index, resources)
    for name, queue in tree.items():
        parent = accepted[name].parent
        if parent:
            queue.parent = tree[parent]
            tree[parent].children.append(queue)
    for account in sorted(ledgers):
        _split_by_user(tree, account, len(resources))
    for account, ledger in ledgers.items():
        leaf = of_account(tree, account)
        if leaf is not None:
            for level in leaf.path():
                for r in range(len(resources)):
                    level.allocated[r] += ledger.allocated[r]
                    level.allocated_fixed[r] += ledger.allocated_fixed[r]
    return tree, rejected


def of_account(tree: Mapping[str, queues.Queue], account: fold_jobs.Account) -> queues.Queue | None:
    """Return the queue that an account's jobs sit in; one of its own per user where shared."""
    queue = tree.get(account[0])
    if queue is not None and queue.users:
        return tree.get(user_queue(account))
    return queue


def user_queue(account: fold_jobs.Account) -> str:
    """Return the name of the queue that stands for one user of a queue."""
    return f"{account[0]} (user {account[1] or '-'})"


def _split_by_user(tree: dict[str, queues.Queue], account: fold_jobs.Account, width: int) -> None:
    """Divide a queue between the users of its jobs: each is a child with equal weight."""
    queue = tree.get(account[0])
    if queue is None or not queue.users or user_queue(account) in tree:
        return
    if any(not child.of_user for child in queue.children):
        return  # not a leaf: its jobs are refused anyway
    child = queues.Queue(user_queue(account), index=len(tree), width=width)
    child.of_user = True
    child.parent = queue
    child.priority = 0
    child.limit = [queues.UNLIMITED] * width
    child.quota = [0, 0, 0, *([queues.UNLIMITED] * (width - 3))]
    child.preempt_min_runtime = queue.preempt_min_runtime
    child.reclaim_min_runtime = queue.reclaim_min_runtime
    queue.children.append(child)
    tree[child.name] = child


def _queue(spec: specs.Queue, index: int, resources: tuple[str, ...]) -> queues.Queue:
    queue = queues.Queue(spec.name, index=index, uid=spec.uid or spec.name, width=len(resources))
    queue.title = spec.title or spec.name
    queue.priority = spec.priority
    queue.created = spec.created
    queue.preempt_min_runtime = spec.preempt_min_runtime
    queue.reclaim_min_runtime = spec.reclaim_min_runtime
    queue.users = spec.fair_users
    for r, name in enumerate(resources):
        bound = spec.resources.get(name)
        if bound is None:
            # Only what a queue mentions binds it; loaders fill in KAI's zeros where asked to.
            bound = specs.Bound(quota=queues.UNLIMITED if r > 2 else 0)
        queue.quota[r] = _bound(bound.quota)
        queue.limit[r] = _bound(bound.limit)
        queue.weight[r] = bound.weight
        queue.lend[r] = bound.lending_limit
        queue.borrow[r] = bound.borrowing_limit
        queue.usage[r] = spec.usage.get(name, 0.0)
        if bound.borrowing_limit >= 0 and bound.quota >= 0:
            ceiling = bound.quota + bound.borrowing_limit
            queue.limit[r] = ceiling if bound.limit < 0 else min(bound.limit, ceiling)
    return queue


def _bound(value: int) -> int:
    """Keep sums harmless: what is absurdly large binds nobody; below -1 is taken for -1."""
    return max(min(value, rules.ABSURD), queues.UNLIMITED)


def _broken_line(name: str, accepted: Mapping[str, specs.Queue]) -> str:
    seen = {name}
    parent = accepted[name].parent
    while parent:
        if parent not in accepted:
            return f"parent queue '{parent}' does not exist"
        if parent in seen:
            return f"queue '{name}' is its own ancestor"
        if len(seen) >= MOST_LEVELS:
            return f"queue '{name}' is more than {MOST_LEVELS} levels deep"
        seen.add(parent)
        parent = accepted[parent].parent
    return ""


def _flattened(accepted: Mapping[str, specs.Queue]) -> dict[str, specs.Queue]:
    unlimited = specs.Bound(quota=queues.UNLIMITED, limit=queues.UNLIMITED)
    root = specs.Queue(
        name=_FLAT_ROOT, resources=dict.fromkeys(("cpu", "memory", "gpu"), unlimited)
    )
    below = {
        name: dataclasses.replace(queue, parent=_FLAT_ROOT)
        for name, queue in accepted.items()
        if queue.parent and name != _FLAT_ROOT
    }
    return {_FLAT_ROOT: root, **below}
