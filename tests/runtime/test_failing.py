from __future__ import annotations

import msgspec
import pytest

from tenantry.kube import errors
from tenantry.runtime import failing, reflector

Failure = reflector.Failure


def answer(code: int, reason: str) -> errors.ApiError:
    body = msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": "m"})
    return errors.from_status(body)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (answer(410, "Expired"), Failure.GONE),
        (answer(404, "NotFound"), Failure.GONE),
        (answer(400, "BadRequest"), Failure.UNSUPPORTED),
        (answer(422, "Invalid"), Failure.UNSUPPORTED),
        (answer(403, "Forbidden"), Failure.OTHER),
        (answer(500, "InternalError"), Failure.OTHER),
        (errors.Unreachable("cut"), Failure.OTHER),
        (errors.AnswerTooLarge("an object of 2 GiB"), Failure.OTHER),
        (msgspec.DecodeError("no JSON"), Failure.OTHER),
        (ConnectionResetError(), Failure.OTHER),
    ],
)
def test_what_a_server_can_cause_is_lived_through(error: Exception, failure: Failure) -> None:
    assert failing.meaning(error) == reflector.Failed(failure)


@pytest.mark.parametrize("error", [KeyError("a"), RuntimeError("defect"), TypeError("defect")])
def test_defects_are_not(error: Exception) -> None:
    assert failing.meaning(error) is None
