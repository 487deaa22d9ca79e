"""The one decision: order, audiences, allow-lists, audits, and rules that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.directory import identity
from tenantry.tenancy.policy import engine

ALICE = engine.Who(
    requester=identity.Requester("alice", frozenset({"dev"})), klass=identity.Class.CAPSULE
)


def clause(action: engine.Action, *values: str, **more: Any) -> engine.Clause[str]:
    return engine.Clause(
        action=action,
        matches=frozenset(values).__contains__,
        words=f"exact: {', '.join(values)}",
        source="spec.rules[0]",
        **more,
    )


def checked(value: str, *clauses: engine.Clause[str], who: engine.Who = ALICE) -> engine.Judgement:
    rule_set: engine.RuleSet[str] = engine.RuleSet(
        name="colour", clauses=clauses, allowed="Allowed colours"
    )
    return rule_set.check(value, "spec.colour", who)


ALLOW, DENY, AUDIT = engine.ALLOW, engine.DENY, engine.AUDIT


@pytest.mark.parametrize(
    ("clauses", "refused"),
    [
        ([], False),
        ([clause(DENY, "red")], True),
        ([clause(DENY, "blue")], False),
        ([clause(ALLOW, "red")], False),
        ([clause(ALLOW, "blue")], True),
        # The last match wins, in either direction.
        ([clause(ALLOW, "red"), clause(DENY, "red")], True),
        ([clause(DENY, "red"), clause(ALLOW, "red")], False),
        ([clause(DENY, "red"), clause(ALLOW, "blue")], True),
        ([clause(ALLOW, "blue"), clause(ALLOW, "red")], False),
        # An audit decides nothing, and makes no allow-list.
        ([clause(AUDIT, "red")], False),
        ([clause(DENY, "red"), clause(AUDIT, "red")], True),
        ([clause(AUDIT, "red"), clause(ALLOW, "blue")], True),
    ],
)
def test_order(clauses: list[engine.Clause[str]], refused: bool) -> None:
    assert bool(checked("red", *clauses).refusal) == refused


def test_words() -> None:
    assert checked("red", clause(DENY, "red", "pink")).refusal == (
        'colour "red" at spec.colour is denied by namespace rule: '
        "matched denied rule exact: red, pink"
    )
    assert checked("red", clause(ALLOW, "blue"), clause(ALLOW, "green")).refusal == (
        'colour "red" at spec.colour is not allowed by namespace rule: value did not match any '
        "allowed rule. Allowed colours: exact: blue; exact: green"
    )
    many = [clause(ALLOW, f"c{number}") for number in range(12)]
    assert checked("red", *many).refusal.endswith("exact: c8; exact: c9; and 2 more")
    (note,) = checked("red", clause(AUDIT, "red")).notes
    assert note.message == ('colour "red" at spec.colour matched audit namespace rule exact: red')


@pytest.mark.parametrize(
    ("audience", "included"),
    [
        (engine.EVERYBODY, True),
        (engine.Audience((identity.Subject("User", "alice"),)), True),
        (engine.Audience((identity.Subject("User", "bob"),)), False),
        (engine.Audience((identity.Subject("Group", "dev"),)), True),
        (engine.Audience((identity.Subject("User", "dev"),)), False),
        (engine.Audience((identity.Subject("ServiceAccount", "alice"),)), True),
        (engine.Audience((), ("CapsuleUser",)), True),
        (engine.Audience((), ("Administrator",)), False),
        (engine.Audience((), ("TenantOwner",)), False),
        (engine.Audience((), ("Controller",)), False),
        (engine.Audience((), ("Everybody",)), False),
        (engine.Audience((identity.Subject("User", "bob"),), ("CapsuleUser",)), True),
    ],
)
def test_audiences(audience: engine.Audience, included: bool) -> None:
    assert bool(checked("red", clause(DENY, "red", audience=audience)).refusal) == included
    # A block for others is no allow-list for her.
    allowed = checked("red", clause(ALLOW, "blue", audience=audience))
    assert bool(allowed.refusal) == included


def test_custom_audiences() -> None:
    boss = engine.Who(
        requester=identity.Requester("boss"),
        klass=identity.Class.ADMIN,
        owns=lambda: True,
        controller=True,
    )
    for name in ("Administrator", "TenantOwner", "Controller"):
        assert engine.Audience((), (name,)).includes(boss)
    assert not engine.Audience((), ("CapsuleUser",)).includes(boss)


def test_a_rule_that_cannot_be_read_refuses_whatever_comes_after() -> None:
    broken = clause(DENY, "blue", broken="no such key")
    for clauses in ([broken], [broken, clause(ALLOW, "red")], [clause(ALLOW, "red"), broken]):
        assert checked("red", *clauses).refusal == (
            "spec.rules[0] of the Tenant cannot be evaluated, so what it is about is refused: "
            "no such key; please, reach out to the system administrators"
        )


def test_a_clause_about_something_else_limits_nothing() -> None:
    assert not checked("red", clause(ALLOW, "blue", applies=lambda _: False)).refusal
    assert not checked("red", clause(DENY, "blue", broken="x", applies=lambda _: False)).refusal


@given(
    st.lists(
        st.tuples(st.sampled_from([ALLOW, DENY, AUDIT]), st.sampled_from(["a", "b"])), max_size=6
    )
)
def test_against_the_sentence_of_the_specification(blocks: list[tuple[engine.Action, str]]) -> None:
    """Walk as the text says, in another way than the code."""
    verdicts = [action for action, value in blocks if value == "a" and action != AUDIT]
    expected = verdicts[-1] == DENY if verdicts else any(action == ALLOW for action, _ in blocks)
    outcome = checked("a", *(clause(action, value) for action, value in blocks))
    assert bool(outcome.refusal) == expected
    assert len(outcome.notes) == sum(1 for block in blocks if block == (AUDIT, "a"))
