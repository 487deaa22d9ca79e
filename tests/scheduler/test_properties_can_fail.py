"""Each property notices a defect: the engine is sabotaged, and the property must fail."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

from tenantry.scheduler.engine import (
    capacity,
    decisions,
    devices,
    division,
    job_order,
    reclaimable,
    scenario,
    selection,
    session,
    starting,
    tables,
)
from tenantry.scheduler.engine.plugins import nodelocalgreedy
from tenantry.scheduler.simulation import replay

_SPEC = importlib.util.spec_from_file_location(
    "scheduler_properties", pathlib.Path(__file__).with_name("test_properties.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
PROPERTIES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(PROPERTIES)

# It tries the tests, not the product.
pytestmark = pytest.mark.long

Patch = pytest.MonkeyPatch
#: Many small clusters, the first failure ends it, the same ones each time.
FAST = hypothesis.settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
    report_multiple_bugs=False,
    print_blob=False,
)


def _first_come(patch: Patch) -> None:
    patch.setattr(session.Session, "job_key", lambda self, job: ())


def _always_fits(patch: Patch) -> None:
    patch.setattr(devices, "fits", lambda group, capacity, memory: True)
    patch.setattr(devices, "fits_now", lambda group, capacity, memory: True)


def _no_limits(patch: Patch) -> None:
    patch.setattr(capacity, "within_limit", lambda queue, request: None)


def _no_quotas(patch: Patch) -> None:
    patch.setattr(capacity, "within_quota", lambda queue, request: None)


def _one_pod_at_a_time(patch: Patch) -> None:
    whole = selection._of_leaf
    patch.setattr(
        selection, "_of_leaf", lambda state, leaf, evicted: whole(state, leaf, evicted)[:1]
    )


def _only_large_jobs(patch: Patch) -> None:
    real = starting._attempt

    def attempt(session: Any, job: Any, rows: Any) -> Any:
        if len(job.rows) > 1:
            return (yield from real(session, job, rows))
        return False

    patch.setattr(starting, "_attempt", attempt)


def _only_plan(patch: Patch) -> None:
    patch.setattr(starting, "_only_planned", lambda session, job: True)


def _forget_plans(patch: Patch) -> None:
    patch.setattr(decisions.Decisions, "pipeline", lambda self, row: None)


def _evict_everybody(patch: Patch) -> None:
    def scenarios(self: Any, probe: scenario.Probe) -> Any:
        yield list(probe.units())

    def only_the_job(session: Any, jobs: Any, evicted: Any = (), *, depth: Any = None) -> Any:
        wanted = [entry for entry in jobs if entry[1] is not None] or jobs
        return (yield from real(session, wanted, evicted, depth=depth))

    real = job_order.of_jobs
    patch.setattr(job_order, "of_jobs", only_the_job)
    patch.setattr(nodelocalgreedy.NodeLocalGreedy, "scenarios", scenarios)
    patch.setattr(reclaimable, "legal", lambda *args, **kwargs: True)


def _keep_the_rest(patch: Patch) -> None:
    patch.setattr(division, "by_weight", lambda siblings, r, remaining, *, k, unit=1: remaining)


def _nothing_sticks(patch: Patch) -> None:
    patch.setattr(replay, "carry_out", lambda seen, decided: None)


def _shared_column(patch: Patch) -> None:
    real = tables.Tables.fork

    def fork(self: tables.Tables) -> tables.Tables:
        twin = real(self)
        twin.status = self.status
        return twin

    patch.setattr(tables.Tables, "fork", fork)


def _never_give_back(patch: Patch) -> None:
    real = tables.Tables.bill

    def bill(self: tables.Tables, podset: int, charges: tuple[int, ...], sign: int) -> None:
        if sign > 0:
            real(self, podset, charges, sign)

    patch.setattr(tables.Tables, "bill", bill)


SABOTAGE: dict[str, Callable[[Patch], None]] = {
    "test_order_of_insertion_does_not_matter": _first_come,
    "test_nothing_is_used_twice": _always_fits,
    "test_no_queue_passes_its_limit": _no_limits,
    "test_non_preemptible_work_stays_within_quota": _no_quotas,
    "test_gangs_start_whole_or_not_at_all": _one_pod_at_a_time,
    "test_work_conserving": _only_large_jobs,
    "test_plans_wait_for_somebody_to_leave": _only_plan,
    "test_evictions_serve_a_job_that_is_planned": _forget_plans,
    "test_no_victim_was_unneeded": _evict_everybody,
    "test_shares_sum_to_capacity": _keep_the_rest,
    "test_settles_without_ping_pong": _nothing_sticks,
    "test_the_observed_state_is_never_touched": _shared_column,
    "test_observed_equals_rebuilt": _never_give_back,
}


def test_every_property_is_here() -> None:
    named = {name for name, value in vars(PROPERTIES).items() if hasattr(value, "hypothesis")}
    assert named == set(SABOTAGE)


@pytest.mark.parametrize("name", SABOTAGE)
def test_notices(name: str, monkeypatch: Patch) -> None:
    SABOTAGE[name](monkeypatch)
    inner = getattr(PROPERTIES, name).hypothesis.inner_test
    given = [PROPERTIES.clusters]
    if inner.__code__.co_argcount > 1:
        from hypothesis import strategies as st

        given.append(st.integers(0, 999))
    drawn: Any = hypothesis.given(*given)
    trial = FAST(drawn(inner))
    with pytest.raises((AssertionError, ExceptionGroup)):
        trial()
