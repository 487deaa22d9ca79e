from __future__ import annotations

import msgspec

from tenantry.api import meta
from tenantry.runtime import conditions

READY = meta.Condition(type="Ready", status="True", reason="Done", message="all is well")
EARLY, LATE = "1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"


def test_adds_with_the_time() -> None:
    result, changed = conditions.set_condition([], READY, 0.0)
    assert changed
    assert result == [msgspec.structs.replace(READY, last_transition_time=EARLY)]


def test_the_time_moves_with_the_status_only() -> None:
    first, _ = conditions.set_condition([], READY, 0.0)
    again, changed = conditions.set_condition(first, READY, 60.0)
    assert (again, changed) == (first, False)

    other_reason = msgspec.structs.replace(READY, reason="Else", observed_generation=2)
    second, changed = conditions.set_condition(first, other_reason, 60.0)
    assert changed
    assert second[0].last_transition_time == EARLY

    failed = msgspec.structs.replace(READY, status="False")
    third, changed = conditions.set_condition(second, failed, 60.0)
    assert changed
    assert third[0].last_transition_time == LATE


def test_keeps_order_and_others() -> None:
    others = [meta.Condition(type=kind, status="False") for kind in ("A", "Ready", "B")]
    result, _ = conditions.set_condition(others, READY, 0.0)
    assert [each.type for each in result] == ["A", "Ready", "B"]
    assert result[0] is others[0]


def test_cuts_what_the_api_would_refuse() -> None:
    long = msgspec.structs.replace(READY, message="x" * 40_000)
    result, _ = conditions.set_condition([], long, 0.0)
    assert len(result[0].message) == 32768
    assert conditions.set_condition(result, long, 60.0)[1] is False


def test_finds_and_removes() -> None:
    held, _ = conditions.set_condition([], READY, 0.0)
    assert conditions.is_true(held, "Ready")
    assert not conditions.is_true(held, "Cordoned")
    assert conditions.remove_condition(held, "Ready") == ([], True)
    assert conditions.remove_condition(held, "Other") == (held, False)
