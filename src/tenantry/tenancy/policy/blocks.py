"""One block of `spec.rules` on its way to clauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tenantry.api.capsule import common, rules
from tenantry.core import errors
from tenantry.directory import identity
from tenantry.tenancy.policy import engine, matching

V = TypeVar("V")


def _never(_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block that selects the namespace, and what turns its strings into their final form.

    :param source: where it stands, such as ``spec.rules[2]``
    """

    enforce: rules.Enforce
    source: str
    audience: engine.Audience = engine.EVERYBODY
    render: matching.Render = matching.as_written

    def clause(
        self,
        build: Callable[[], tuple[Callable[[V], bool], str]],
        *,
        applies: Callable[[V], bool] | None = None,
    ) -> engine.Clause[V]:
        """Return the clause for one set.

        :param build: gives matcher and description; what it raises makes the clause a broken one
        """
        broken = ""
        try:
            matches, words = build()
        except errors.TenantryError as problem:
            matches, words, broken = _never, "", str(problem)
        return engine.Clause(
            action=self.enforce.action,
            matches=matches,
            words=words,
            source=self.source,
            applies=applies,
            audience=self.audience,
            broken=broken,
        )

    def rendered(self, values: list[str]) -> list[str]:
        """Return values with their templates filled."""
        return [self.render(value) for value in values]


def of_workloads(selected: Sequence[Block]) -> list[tuple[Block, rules.Workloads]]:
    """Return the blocks that say something about workloads, and what."""
    return [
        (block, block.enforce.workloads)
        for block in selected
        if block.enforce.workloads is not None
    ]


def audience(entries: list[rules.Audience], render: matching.Render) -> engine.Audience:
    """Compile an audience.

    :raises InvalidValueError: when a template in it is not valid
    """
    subjects = [
        identity.Subject(entry.kind, render(entry.name))
        for entry in entries
        if entry.kind != "Custom"
    ]
    custom = [render(entry.name) for entry in entries if entry.kind == "Custom"]
    return engine.Audience(tuple(subjects), tuple(custom))


def legacy(
    matches: Callable[[V], bool], words: str, source: str, *, broken: str = ""
) -> engine.Clause[V]:
    """Return the clause of a deprecated field: what it lists is allowed, for everybody."""
    return engine.Clause(
        action=engine.ALLOW, matches=matches, words=words, source=source, broken=broken
    )


#: A block, its ExpressionMatches, and their path below ``enforce``.
Listed = tuple[Block, Sequence[common.ExpressionMatch], str]
#: Makes of a block's action and expressions what tells whether a value is meant.
Matcher = Callable[[engine.Action, Sequence[matching.Expression]], Callable[[V], bool]]


def expression_set(
    name: str, allowed: str, event: str, found: Sequence[Listed]
) -> tuple[engine.RuleSet[str], ...]:
    """Compile blocks that list ExpressionMatches for one string; none make no rule set."""
    return matched_set(name, allowed, event, found, _any_of)


def matched_set(
    name: str, allowed: str, event: str, found: Sequence[Listed], matcher: Matcher[V]
) -> tuple[engine.RuleSet[V], ...]:
    """Compile blocks that list ExpressionMatches for what is more than one string."""
    clauses = [
        _matched(block, matches, field, matcher) for block, matches, field in found if matches
    ]
    if not clauses:
        return ()
    return (engine.RuleSet(name=name, clauses=tuple(clauses), allowed=allowed, event=event),)


def _any_of(_: engine.Action, entries: Sequence[matching.Expression]) -> Callable[[str], bool]:
    return lambda value: any(entry.matches(value) for entry in entries)


def _matched(
    block: Block, found: Sequence[common.ExpressionMatch], field: str, matcher: Matcher[V]
) -> engine.Clause[V]:
    def build() -> tuple[Callable[[V], bool], str]:
        entries = [
            matching.expression(one, f"{block.source}.enforce.{field}[{index}]", block.render)
            for index, one in enumerate(found)
        ]
        words = engine.listed([entry.words for entry in entries])
        return matcher(block.enforce.action, entries), words

    return block.clause(build)


def listed_set(
    name: str, allowed: str, event: str, found: Sequence[tuple[Block, Sequence[str]]]
) -> tuple[engine.RuleSet[str], ...]:
    """Compile blocks that list plain values for one string."""
    clauses = [_one_of(block, values) for block, values in found if values]
    if not clauses:
        return ()
    return (engine.RuleSet(name=name, clauses=tuple(clauses), allowed=allowed, event=event),)


def _one_of(block: Block, values: Sequence[str]) -> engine.Clause[str]:
    def build() -> tuple[Callable[[str], bool], str]:
        rendered = block.rendered(list(values))
        return frozenset(rendered).__contains__, ", ".join(rendered)

    return block.clause(build)
