from __future__ import annotations

import itertools
from typing import Any

import pytest

from tenantry.runtime import admission, errors


def review(**more: Any) -> admission.Review:
    body: dict[str, Any] = {"metadata": {"name": "x"}}
    return admission.Review(
        **{"uid": "1", "operation": "CREATE", "resource": "pods", "object": body, **more}
    )


def step(name: str, decision: admission.Decision, **more: Any) -> admission.Step[None]:
    return admission.Step(
        name=name, matches=lambda review: True, decide=lambda review, evidence: decision, **more
    )


LABELS = [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]
LABEL = [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]


def test_each_step_sees_what_the_steps_before_have_made_of_it() -> None:
    seen: list[Any] = []

    def look(one: admission.Review, evidence: str) -> admission.Decision:
        seen.append((one.object, evidence))
        return admission.Allow()

    one = review()
    verdict = admission.run(
        [
            admission.Step(name="a", matches=lambda r: True, decide=lambda r, e: admission.Patch(LABELS)),
            admission.Step(name="b", matches=lambda r: True, decide=lambda r, e: admission.Patch(LABEL)),
            admission.Step(name="c", matches=lambda r: True, decide=look),
        ],
        one,
        "evidence",
    )  # fmt: skip

    assert seen == [({"metadata": {"name": "x", "labels": {"a": "1", "b": "2"}}}, "evidence")]
    assert verdict.allowed
    assert verdict.patch == (
        {"op": "add", "path": "/metadata/labels", "value": {"a": "1", "b": "2"}},
    )
    assert one.object == {"metadata": {"name": "x"}}


def test_the_first_refusal_ends_it_and_sends_no_patch() -> None:
    counters = admission.Counters()
    verdict = admission.run(
        [
            step("patch", admission.Patch(LABELS, warnings=("careful",))),
            step("deny", admission.Deny("no: found x, accepted y", code=422, reason="Invalid")),
            step("never", admission.Allow()),
        ],
        review(),
        None,
        counters=counters,
    )

    assert not verdict.allowed
    assert (verdict.code, verdict.reason, verdict.denied_by) == (422, "Invalid", "deny")
    assert verdict.patch == ()
    assert verdict.warnings == ("careful",)
    assert counters.of("deny").denials == 1
    assert counters.of("patch").patches == 1
    assert counters.of("never").runs == 0


def test_steps_that_do_not_match_are_not_asked() -> None:
    def explode(one: admission.Review, evidence: None) -> admission.Decision:
        raise AssertionError

    verdict = admission.run(
        [admission.Step(name="x", matches=lambda r: r.resource == "nodes", decide=explode)],
        review(),
        None,
    )
    assert verdict == admission.Verdict()


def test_work_over_budget_is_counted() -> None:
    ticks = itertools.count(0.0, 0.015)
    counters = admission.Counters()
    for budget in (0.01, 0.02):
        admission.run(
            [step(str(budget), admission.Allow(), budget=budget)],
            review(),
            None,
            counters=counters,
            timer=lambda: next(ticks),
        )
    assert (counters.of("0.01").slow, counters.of("0.02").slow) == (1, 0)
    assert counters.of("0.01").seconds == pytest.approx(0.015)


def test_the_same_warning_is_given_once() -> None:
    steps = [step(name, admission.Allow(warnings=("w",))) for name in "ab"]
    assert admission.run(steps, review(), None).warnings == ("w",)


def test_a_patch_that_does_not_fit_is_an_error_not_an_admission() -> None:
    with pytest.raises(errors.PatchError):
        admission.run([step("x", admission.Patch(LABEL))], review(), None)


def test_the_stored_object_is_what_a_change_is_judged_by() -> None:
    assert review(old={"a": 1}).stored_or_new == {"a": 1}
    assert review().stored_or_new == {"metadata": {"name": "x"}}
    assert review(object=None).stored_or_new == {}
