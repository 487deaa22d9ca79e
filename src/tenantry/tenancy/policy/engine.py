"""The one decision: clauses in order, the last that matches wins.

A matching `allow` or `deny` replaces the verdict so far; `audit` only takes note. Without a verdict
a value is refused when there is an `allow` clause at all, else accepted (specs/capsule 5.8). A
clause that could not be compiled refuses everything it might have been about: what a Tenant means
is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from tenantry.directory import identity

V = TypeVar("V")

Action = Literal["allow", "deny", "audit"]
ALLOW: Action = "allow"
DENY: Action = "deny"
AUDIT: Action = "audit"

#: Descriptions that a refusal lists before it only counts.
MOST_SHOWN = 10

CAPSULE_USER = "CapsuleUser"
ADMINISTRATOR = "Administrator"
TENANT_OWNER = "TenantOwner"
CONTROLLER = "Controller"
CUSTOM = (CAPSULE_USER, ADMINISTRATOR, TENANT_OWNER, CONTROLLER)


#: Comparisons of one review. Objects of a megabyte hold ten thousand containers or annotations, and
#: each rule looks at each: this is where that ends, at a few tenths of a second.
MOST_WORK = 30_000
TOO_MUCH = (
    "the object holds more values than can be compared with the rules of its Tenant (more than "
    f"{MOST_WORK} comparisons); please, split it, or reach out to the system administrators"
)


@dataclass(slots=True)
class Work:
    """Comparisons that one review may still cost."""

    left: int = MOST_WORK

    def spend(self, comparisons: int) -> bool:
        """Take some; tell whether there were as many."""
        self.left -= comparisons
        return self.left >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Whose request is judged, and how much work that may be.

    :param owns: whether the requester owns the tenant; asked only where a rule depends on it
    :param controller: whether it is the platform itself
    """

    requester: identity.Requester
    klass: identity.Class
    owns: Callable[[], bool] = lambda: False
    controller: bool = False
    work: Work = field(default_factory=Work)

    def is_custom(self, name: str) -> bool:
        """Tell whether the requester is in one of the platform's own classes."""
        if name == CAPSULE_USER:
            return self.klass is identity.Class.CAPSULE
        if name == ADMINISTRATOR:
            return self.klass is identity.Class.ADMIN
        if name == CONTROLLER:
            return self.controller
        return name == TENANT_OWNER and self.owns()


@dataclass(frozen=True, slots=True)
class Audience:
    """Whose requests a clause judges; nobody named means everybody."""

    subjects: tuple[identity.Subject, ...] = ()
    custom: tuple[str, ...] = ()

    def includes(self, who: Who) -> bool:
        """Tell whether a requester is among them."""
        if not self.subjects and not self.custom:
            return True
        return any(subject.matches(who.requester) for subject in self.subjects) or any(
            who.is_custom(name) for name in self.custom
        )


EVERYBODY = Audience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause(Generic[V]):
    """One statement about a value.

    :param words: what it matches, as a refusal says it
    :param source: where it stands, such as ``spec.rules[2]``
    :param applies: whether it is about a value at all; an allow clause that is not limits nothing
    :param broken: why it cannot be read; such a clause refuses
    """

    action: Action
    matches: Callable[[V], bool]
    words: str
    source: str
    applies: Callable[[V], bool] | None = None
    audience: Audience = EVERYBODY
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[V]):
    """What the clauses say of one value.

    :param decisive: the clause that gave the verdict; None when none matched
    :param missed: there are allow clauses, and none of them matched
    """

    decisive: Clause[V] | None = None
    missed: bool = False
    audits: tuple[Clause[V], ...] = ()

    @property
    def refused(self) -> bool:
        return self.missed or (
            self.decisive is not None
            and (self.decisive.action == DENY or bool(self.decisive.broken))
        )


def judge(clauses: Iterable[Clause[V]], value: V) -> Outcome[V]:
    """Decide on one value; the clauses are those whose audience the requester is in."""
    decisive: Clause[V] | None = None
    allowing = False
    audits: list[Clause[V]] = []
    for clause in clauses:
        if clause.applies is not None and not clause.applies(value):
            continue
        if clause.broken:
            return Outcome(clause)
        if clause.action == ALLOW:
            allowing = True
        if not clause.matches(value):
            continue
        if clause.action == AUDIT:
            audits.append(clause)
        else:
            decisive = clause
    return Outcome(decisive, decisive is None and allowing, tuple(audits))


@dataclass(frozen=True, slots=True)
class Note:
    """What an audit clause saw."""

    message: str
    source: str
    set_name: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule set says of a value: the message of a refusal and its event, and notes."""

    refusal: str = ""
    notes: tuple[Note, ...] = ()
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet(Generic[V]):
    """Clauses about one kind of value, and the words for what they decide.

    :param name: the set as messages call it, such as ``registry``
    :param allowed: how a refusal begins its list of what is allowed
    :param show: gives the value as messages quote it
    :param word: gives the whole refusal instead, for the deprecated fields with words of their own
    :param event: reason of the events that tell of refusals
    :param event_of: gives the reason instead, where it depends on the value
    :param further: gives what an allow clause still asks of what it matched; "" when that is met
    """

    name: str
    clauses: tuple[Clause[V], ...]
    allowed: str = ""
    event: str = ""
    event_of: Callable[[V], str] | None = None
    show: Callable[[V], str] = str
    word: Callable[[V], str] | None = None
    further: Callable[[V, str, Clause[V]], str] | None = None

    def check(self, value: V, path: str, who: Who) -> Judgement:
        """Judge one value found at `path`."""
        if not who.work.spend(len(self.clauses)):
            return Judgement(TOO_MUCH, event=self.event)
        clauses = [clause for clause in self.clauses if clause.audience.includes(who)]
        outcome = judge(clauses, value)
        notes = tuple(
            Note(
                f'{self.name} "{self.show(value)}" at {path} matched audit {self._audited} rule '
                f"{clause.words}",
                clause.source,
                self.name,
            )
            for clause in outcome.audits
        )
        if outcome.refused:
            event = self.event_of(value) if self.event_of is not None else self.event
            return Judgement(self._refusal(value, path, outcome, clauses), notes, event)
        decisive = outcome.decisive
        if self.further is not None and decisive is not None:
            return Judgement(self.further(value, path, decisive), notes, self.event)
        return Judgement("", notes)

    def concerns(self, who: Who) -> bool:
        """Tell whether any clause judges the requester at all."""
        return any(clause.audience.includes(who) for clause in self.clauses)

    @property
    def _audited(self) -> str:
        # Clients look for these words of upstream, which differ for this one set.
        return "registry" if self.name == "registry" else "namespace"

    def _refusal(
        self, value: V, path: str, outcome: Outcome[V], clauses: Sequence[Clause[V]]
    ) -> str:
        decisive = outcome.decisive
        if decisive is not None and decisive.broken:
            return broken_words(decisive)
        if self.word is not None:
            return self.word(value)
        what = f'{self.name} "{self.show(value)}" at {path}'
        if decisive is not None:
            return f"{what} is denied by namespace rule: matched denied rule {decisive.words}"
        words = list(dict.fromkeys(c.words for c in clauses if c.action == ALLOW))
        return (
            f"{what} is not allowed by namespace rule: value did not match any allowed rule. "
            f"{self.allowed}: {listed(words)}"
        )


def broken_words(clause: Clause[V]) -> str:
    """Say that a rule cannot be read, and who can help."""
    return (
        f"{clause.source} of the Tenant cannot be evaluated, so what it is about is refused: "
        f"{clause.broken}; please, reach out to the system administrators"
    )


def listed(words: Sequence[str]) -> str:
    """List descriptions, at most ten."""
    shown = "; ".join(words[:MOST_SHOWN])
    more = len(words) - MOST_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown
