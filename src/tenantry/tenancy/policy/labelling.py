"""Labels and annotations that objects must, may or may not carry (specs/capsule 5.8, `metadata`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenantry.api.capsule import constants, rules
from tenantry.core import errors, names, regex
from tenantry.tenancy.policy import blocks, engine, keys, matching

Object = Mapping[str, Any]

#: Part of the metadata -> what messages call one of it.
PARTS = {keys.LABELS: "label", keys.ANNOTATIONS: "annotation"}
NEEDED = 'metadata {kind} "{key}" is required at metadata.{part}["{key}"]'

_WILDCARD = re.compile(r"(?<![.\])}\\*])\*")


@dataclass(frozen=True, slots=True)
class Use:
    """One label or annotation of an object."""

    group: str
    kind: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which kinds a rule is about.

    The version of a group is not compared: it is the same object under each of them, and labels
    do not change with it.
    """

    groups: tuple[str, ...]
    kinds: tuple[Any, ...]
    exact: frozenset[str]

    def include(self, group: str, kind: str) -> bool:
        """Tell whether a kind is meant; a Namespace only when it is named."""
        if "*" not in self.groups and group not in self.groups:
            return False
        if kind == "Namespace":
            return kind in self.exact
        return kind in self.exact or any(pattern.search(kind) for pattern in self.kinds)


def kinds_of(rule: rules.MetadataRule, where: str) -> Kinds:
    """Compile groups and kinds.

    :raises InvalidValueError: when a kind cannot be one
    """
    groups = [one.rpartition("/")[0] if one != "*" else one for one in rule.api_groups] or [""]
    patterns = [
        regex.compile(f"^{re.escape(kind).replace(re.escape('*'), '.*')}$", f"{where}.kinds")
        for kind in rule.kinds
        if "*" in kind
    ]
    return Kinds(tuple(groups), tuple(patterns), frozenset(rule.kinds))


def is_concrete(key: str) -> bool:
    """Tell whether a key selector names one key."""
    return names.is_qualified_name(key)


def key_test(key: str, where: str) -> Callable[[str], bool]:
    """Compile a key selector: a key, or an anchored expression in which ``*`` is any part.

    :raises InvalidValueError: when it is neither
    """
    if is_concrete(key):
        return lambda found: found == key
    pattern = regex.compile(f"^(?:{_WILDCARD.sub('.*', key)})$", where)
    return lambda found: pattern.search(found) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key that is written: when it is missing, or always."""

    part: str
    key: str
    value: str
    always: bool
    kinds: Kinds
    audience: engine.Audience


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A key that must be there."""

    part: str
    key: str
    test: Callable[[str], bool]
    kinds: Kinds
    audience: engine.Audience

    def is_met(self, found: keys.Strings) -> bool:
        """Tell whether one of the keys there is it."""
        return self.key in found or (self._is_pattern and any(map(self.test, found)))

    def cost(self, found: keys.Strings) -> int:
        """Return how many comparisons that takes."""
        return len(found) if self._is_pattern else 1

    @property
    def _is_pattern(self) -> bool:
        return not is_concrete(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRules:
    """What a tenant says about labels and annotations; empty parts limit nothing."""

    values: Mapping[str, engine.RuleSet[Use]] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    settings: tuple[Setting, ...] = ()


def compiled(selected: Sequence[blocks.Block]) -> MetadataRules:
    """Compile every metadata rule of the blocks that select a namespace."""
    clauses: dict[str, list[engine.Clause[Use]]] = {part: [] for part in PARTS}
    needs: list[Need] = []
    settings: list[Setting] = []
    for block in selected:
        for index, rule in enumerate(block.enforce.metadata):
            where = f"{block.source}.enforce.metadata[{index}]"
            try:
                kinds = kinds_of(rule, where)
            except errors.InvalidValueError as problem:
                for part in PARTS:
                    clauses[part].append(_broken(block, str(problem)))
                continue
            for part, entries in ((keys.LABELS, rule.labels), (keys.ANNOTATIONS, rule.annotations)):
                for key, entry in entries.items():
                    _one(block, kinds, part, key, entry, f"{where}.{part}[{key}]",
                         clauses[part], needs, settings)  # fmt: skip
    return MetadataRules(
        values={
            part: engine.RuleSet(
                name=f"metadata {kind}",
                clauses=tuple(clauses[part]),
                allowed="Allowed metadata values",
                event=constants.FORBIDDEN_METADATA_EVENT,
                show=lambda use: use.value,
            )
            for part, kind in PARTS.items()
            if clauses[part]
        },
        needs=tuple(needs),
        settings=tuple(settings),
    )


def _broken(block: blocks.Block, problem: str) -> engine.Clause[Use]:
    return engine.Clause(
        action=engine.DENY, matches=lambda _: True, words="", source=block.source,
        audience=block.audience, broken=problem,
    )  # fmt: skip


def _one(  # noqa: PLR0917 - collects into the lists of `compiled`
    block: blocks.Block,
    kinds: Kinds,
    part: str,
    key: str,
    entry: rules.MetadataValue,
    where: str,
    clauses: list[engine.Clause[Use]],
    needs: list[Need],
    settings: list[Setting],
) -> None:
    """Compile what a rule says about one key."""
    try:
        test = key_test(key, where)
        default = block.render(entry.default) if entry.default is not None else None
        managed = block.render(entry.managed) if entry.managed is not None else None
    except errors.TenantryError as problem:
        clauses.append(_broken(block, str(problem)))
        return

    def applies(use: Use) -> bool:
        return kinds.include(use.group, use.kind) and test(use.key)

    only_writes = not entry.values and (
        entry.required or default is not None or managed is not None
    )
    if not only_writes:
        clauses.append(block.clause(lambda: _values(block, entry, where), applies=applies))
    if entry.required and block.enforce.action == engine.ALLOW:
        needs.append(Need(part=part, key=key, test=test, kinds=kinds, audience=block.audience))
    for value, always in ((default, False), (managed, True)):
        if value is not None and is_concrete(key):
            settings.append(
                Setting(part=part, key=key, value=value, always=always, kinds=kinds,
                        audience=block.audience)
            )  # fmt: skip


def _values(
    block: blocks.Block, entry: rules.MetadataValue, where: str
) -> tuple[Callable[[Use], bool], str]:
    found = [
        matching.expression(one, f"{where}.values[{index}]", block.render)
        for index, one in enumerate(entry.values)
    ]
    if not found:
        return lambda _: True, "any value"
    return (
        lambda use: any(one.matches(use.value) for one in found),
        engine.listed([one.words for one in found]),
    )


# ---- judging ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object whose metadata is judged."""

    group: str
    kind: str
    obj: Object
    old: Object | None


def judged(found: MetadataRules, subject: Subject, who: engine.Who) -> Iterator[engine.Judgement]:
    """Judge what a change sets, and whether what is needed is there or was missing before."""
    for part, kind in PARTS.items():
        after, before = keys.of(subject.obj, part), keys.of(subject.old, part)
        rule_set = found.values.get(part)
        for key in keys.added(before, after) if rule_set is not None else ():
            if rule_set is None or key.startswith(constants.KEY_PREFIXES):
                continue
            use = Use(subject.group, subject.kind, key, after[key])
            yield rule_set.check(use, f'metadata.{part}["{key}"]', who)
        for need in found.needs:
            if need.part != part or not _concerns(need.kinds, need.audience, subject, who):
                continue
            if not who.work.spend(need.cost(before) + need.cost(after)):
                yield engine.Judgement(engine.TOO_MUCH, event=constants.FORBIDDEN_METADATA_EVENT)
                return
            had = subject.old is None or need.is_met(before)
            if had and not need.is_met(after):
                message = NEEDED.format(kind=kind, key=need.key, part=part)
                yield engine.Judgement(message, event=constants.FORBIDDEN_METADATA_EVENT)


def _concerns(kinds: Kinds, audience: engine.Audience, subject: Subject, who: engine.Who) -> bool:
    return kinds.include(subject.group, subject.kind) and audience.includes(who)


def kept(found: MetadataRules, kind: str) -> dict[str, dict[str, str]]:
    """Return what objects of a core kind carry whoever writes them, by part."""
    result: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for setting in found.settings:
        everybody = setting.audience == engine.EVERYBODY
        if setting.always and everybody and setting.kinds.include("", kind):
            result[setting.part][setting.key] = setting.value
    return result


def written(found: MetadataRules, subject: Subject, who: engine.Who) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that an object gets, by part; the last rule wins."""
    result: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for setting in found.settings:
        if not _concerns(setting.kinds, setting.audience, subject, who):
            continue
        if setting.always or setting.key not in keys.of(subject.obj, setting.part):
            result[setting.part][setting.key] = setting.value
    return result
