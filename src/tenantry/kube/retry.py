"""Whether and when a failed request is tried again. Pure.

A request is repeated only where that cannot do harm: it has no effect, or its effect is the same
when it happens twice, or the server surely did nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tenantry.kube import errors

#: What happens when a request is carried out: nothing (reads, reviews, dry runs); the same however
#: often (apply); something each time.
Effect = Literal["none", "repeatable", "once"]

#: Causes of a 429 that waiting within one call does not cure.
_STANDING = frozenset({"DisruptionBudget"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """How often and how far apart; the deadline of the call bounds everything."""

    #: Tries in all when no answer comes, or one that does not say when to come back.
    attempts: int = 5
    #: Tries in all when the server asks to come back later.
    asked_attempts: int = 10
    #: Seconds before the second try at most; doubles per try.
    base: float = 0.1
    #: Seconds between two tries at most, beyond what the server asks for.
    cap: float = 5.0


def effect_of(method: str) -> Effect:
    """Give the effect that the method alone implies."""
    return "none" if method in {"GET", "HEAD", "OPTIONS"} else "once"


def delay(
    error: errors.KubeError,
    *,
    effect: Effect,
    attempt: int,
    policy: Policy,
    jitter: float,
) -> float | None:
    """Give the seconds to wait before the next try, or None to give up.

    Full jitter on top of what the server asks for, so that clients it turned away together do not
    come back together.

    :param attempt: 1 after the first try
    :param jitter: a random number in [0, 1)
    """
    if isinstance(error, errors.AnswerTooLarge):
        return None
    if isinstance(error, errors.ApiError):
        again, after = _answer(error, effect), error.retry_after
        asked = after is not None or error.code == 429
    else:
        again, after = error.outcome == "rejected" or effect != "once", None
        asked = False
    attempts = policy.asked_attempts if asked else policy.attempts
    if not again or attempt >= attempts:
        return None
    return (after or 0.0) + jitter * min(policy.cap, policy.base * 2.0 ** (attempt - 1))


def _answer(error: errors.ApiError, effect: Effect) -> bool:
    if error.code == 429:
        return not any(cause.reason in _STANDING for cause in error.causes)
    if error.code < 500:
        return False
    if effect == "once" and errors.unknown_outcome(error):
        return False
    # 500 means a defect or a failing webhook more often than a passing state: only if asked to.
    return error.code in {502, 503, 504} or error.retry_after is not None
