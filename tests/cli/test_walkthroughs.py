"""How the steps of a walkthrough are judged."""

from __future__ import annotations

import pytest

from tenantry.cli.walkthroughs import play, seed_000, steps

LISTING = """\
NAME         STATE    NAMESPACE QUOTA   NAMESPACE COUNT   NODE SELECTOR   READY   STATUS       AGE
hypersuite   Active                     1                                 True    reconciled   18d
"""
ROW = ("hypersuite", "Active", "", "1", "", "True", "reconciled", "*")


@pytest.mark.parametrize(
    ("check", "answer", "wrong"),
    [
        (steps.succeeds, steps.Answer(0, "", ""), False),
        (steps.succeeds, steps.Answer(1, "", "no"), True),
        (steps.prints("a", "b"), steps.Answer(0, "b a", ""), False),
        (steps.prints("a", "b"), steps.Answer(0, "a", ""), True),
        (steps.prints("a"), steps.Answer(1, "a", ""), True),
        (steps.equals("yes"), steps.Answer(0, "yes\n", ""), False),
        (steps.equals("yes"), steps.Answer(0, "yes no", ""), True),
        (steps.lists("a", never=("x",)), steps.Answer(0, "b a", ""), False),
        (steps.lists("a", never=("x",)), steps.Answer(0, "a x", ""), True),
        (steps.lists("a", never=("x",)), steps.Answer(0, "b", ""), True),
        (steps.refused("x"), steps.Answer(1, "", "because x"), False),
        (steps.refused("x"), steps.Answer(1, "", "because y"), True),
        (steps.refused("x"), steps.Answer(0, "x", ""), True),
        (steps.columns(seed_000.TENANTS_HEADER, ROW), steps.Answer(0, LISTING, ""), False),
        (steps.columns(("NAME", "AGE"), ROW), steps.Answer(0, LISTING, ""), True),
        (
            steps.columns(seed_000.TENANTS_HEADER, (*ROW[:2], "3", *ROW[3:])),
            steps.Answer(0, LISTING, ""),
            True,
        ),
        (steps.columns(seed_000.TENANTS_HEADER, ROW), steps.Answer(0, "", ""), True),
    ],
)
def test_checks(check: steps.Check, answer: steps.Answer, wrong: bool) -> None:
    assert bool(check(answer)) is wrong


def test_a_command_is_shown_as_it_is_typed() -> None:
    step = steps.Step(says="", argv=("get", "x", "-o", "jsonpath={.a}"), check=steps.succeeds)
    assert play.typed(step) == "kubectl get x -o 'jsonpath={.a}'"
    piped = steps.Step(says="", argv=("apply", "-f", "-"), stdin="a: b\n", check=steps.succeeds)
    assert play.typed(piped) == "kubectl apply -f - <<EOF\na: b\nEOF"


def test_the_columns_are_those_of_the_seed() -> None:
    # fixtures/seed-000/expected-columns.txt
    expected = "NAME STATE NAMESPACE QUOTA NAMESPACE COUNT NODE SELECTOR READY STATUS AGE"
    assert " ".join(seed_000.TENANTS_HEADER) == expected
