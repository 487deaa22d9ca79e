from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry.kube import errors, retry

POLICY = retry.Policy(attempts=3, asked_attempts=5, base=0.1, cap=5.0)
THROTTLED = errors.TooManyRequests(429, "TooManyRequests", is_status=True)
BUDGET = errors.TooManyRequests(
    429,
    "TooManyRequests",
    details=errors.Details(causes=[errors.Cause(reason="DisruptionBudget")]),
    is_status=True,
)
STARTING = errors.ServiceUnavailable(503, "ServiceUnavailable", is_status=True)
PROXY_DOWN = errors.ApiError(502)
CRASHED = errors.InternalError(500, "InternalError", is_status=True)
TRY_AGAIN = errors.ServerTimeout(500, "ServerTimeout", retry_after=2.0, is_status=True)
TIMED_OUT = errors.ServerTimeout(504, "Timeout", is_status=True)
CONFLICT = errors.Conflict(409, "Conflict", is_status=True)
UNREACHABLE = errors.Unreachable("refused")
CUT = errors.OutcomeUnknown("POST /x", "cut")


@pytest.mark.parametrize(
    ("error", "none", "repeatable", "once"),
    [
        (THROTTLED, True, True, True),
        (BUDGET, False, False, False),
        (STARTING, True, True, True),
        (PROXY_DOWN, True, True, False),
        (CRASHED, False, False, False),
        (TRY_AGAIN, True, True, True),
        (TIMED_OUT, True, True, False),
        (CONFLICT, False, False, False),
        (UNREACHABLE, True, True, True),
        (CUT, True, True, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_tried_again(
    error: errors.KubeError, none: bool, repeatable: bool, once: bool
) -> None:
    effects: dict[retry.Effect, bool] = {"none": none, "repeatable": repeatable, "once": once}
    for effect, expected in effects.items():
        wait = retry.delay(error, effect=effect, attempt=1, policy=POLICY, jitter=0.5)
        assert (wait is not None) is expected, effect


def test_delay_doubles_up_to_the_cap() -> None:
    policy = retry.Policy(asked_attempts=20)
    waits = [
        retry.delay(THROTTLED, effect="none", attempt=attempt, policy=policy, jitter=1.0)
        for attempt in (1, 2, 3, 6, 7, 12)
    ]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 3.2, 5.0, 5.0])


def test_jitter_comes_on_top_of_what_the_server_asks() -> None:
    assert retry.delay(
        TRY_AGAIN, effect="none", attempt=2, policy=POLICY, jitter=0.5
    ) == pytest.approx(2.1)
    assert retry.delay(TRY_AGAIN, effect="none", attempt=1, policy=POLICY, jitter=0.0) == 2.0


def test_tries_are_bounded() -> None:
    assert retry.delay(UNREACHABLE, effect="none", attempt=3, policy=POLICY, jitter=0) is None
    assert retry.delay(STARTING, effect="none", attempt=3, policy=POLICY, jitter=0) is None
    assert retry.delay(TRY_AGAIN, effect="none", attempt=4, policy=POLICY, jitter=0) == 2.0
    assert retry.delay(THROTTLED, effect="none", attempt=5, policy=POLICY, jitter=0) is None
    assert retry.delay(THROTTLED, effect="none", attempt=4, policy=POLICY, jitter=0) == 0


def test_effect_of_a_method() -> None:
    assert [
        retry.effect_of(method) for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    ] == [
        "none",
        "none",
        "once",
        "once",
        "once",
        "once",
    ]


@settings(deadline=None)  # how long is no question here
@given(
    code=st.integers(400, 599),
    is_status=st.booleans(),
    reason=st.sampled_from(["", "InternalError", "Timeout", "ServerTimeout", "ServiceUnavailable"]),
    after=st.none() | st.floats(0, 60),
    attempt=st.integers(1, 20),
)
def test_a_write_of_unknown_outcome_is_never_repeated(
    code: int, is_status: bool, reason: str, after: float | None, attempt: int
) -> None:
    error = errors.ApiError(code, reason, retry_after=after, is_status=is_status)
    wait = retry.delay(error, effect="once", attempt=attempt, policy=retry.Policy(), jitter=0.9)
    if errors.unknown_outcome(error):
        assert wait is None
    if wait is not None:
        assert wait >= (after or 0.0)
