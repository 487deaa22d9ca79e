"""What the webhook answers where it could not ask the API server."""

from __future__ import annotations

import pytest

from tenantry.apps import webhook
from tenantry.kube import errors
from tenantry.runtime import admission

DOWN = errors.Unreachable("GET /api: no connection")


async def raising(problem: Exception) -> admission.Verdict:
    raise problem


@pytest.mark.parametrize(
    "problem",
    [
        DOWN,
        ExceptionGroup("tasks", [DOWN]),
        ExceptionGroup("tasks", [ExceptionGroup("more", [ValueError("x")]), DOWN]),
    ],
)
async def test_the_first_failure_speaks_and_trying_again_helps(problem: Exception) -> None:
    verdict = await webhook.answered(raising(problem))
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 503, "ServiceUnavailable")
    assert verdict.message.endswith(": GET /api: no connection")


@pytest.mark.parametrize("problem", [ValueError("x"), ExceptionGroup("tasks", [ValueError("x")])])
async def test_a_defect_of_ours_is_not_called_one_of_the_api_server(problem: Exception) -> None:
    with pytest.raises(type(problem)):
        await webhook.answered(raising(problem))
