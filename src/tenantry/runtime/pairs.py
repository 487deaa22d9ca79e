"""Objects that are kept in step between two clusters: each as both sides had it when they agreed.

The raw tier's memory. With the last agreed pair, what one side changed since can be told from what
it always said otherwise (names, namespaces, defaults), an echo of our own write from a change, and
a change of one side from one of both. What is carried over is a difference, applied to the other
side's bytes as they are: fields that nobody here knows stay as they came.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenantry.runtime import budget, errors, jsonpatch, store

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: What an API server changes by itself with every write.
SERVERS = frozenset(
    {"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp", "selfLink"}
)

Operations = list[dict[str, Any]]


class Pair(msgspec.Struct, frozen=True, gc=False):
    """One object on both sides, losslessly."""

    source: bytes
    target: bytes


class Side(enum.Flag):
    """Who has changed an object since both agreed."""

    NEITHER = 0
    SOURCE = enum.auto()
    TARGET = enum.auto()
    BOTH = SOURCE | TARGET


class Change(msgspec.Struct, frozen=True):
    """What the source changed, to be applied to the target."""

    operations: Operations
    #: Those of its places at which the target has neither what the source had nor what it has now:
    #: changed there, too, or different from the beginning.
    contested: tuple[str, ...]


class Pairs:
    """The agreed pairs by the source's key, bounded in bytes when a budget is given."""

    def __init__(self, resource: str, budget: budget.Budget | None = None) -> None:
        self._resource = resource
        self._budget = budget
        self._pairs: dict[store.Key, Pair] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def agree(self, key: store.Key, source: bytes, target: bytes) -> None:
        """Remember that both sides are in step like this.

        :raises CacheFullError: when the pair does not fit into the budget
        """
        if self._budget is not None:
            self._budget.put((self, key), len(source) + len(target), self._resource)
        self._pairs[key] = Pair(source, target)

    def get(self, key: store.Key) -> Pair | None:
        """Return what was last agreed."""
        return self._pairs.get(key)

    def forget(self, key: store.Key) -> None:
        """Let go of an object that is gone from both sides."""
        if self._pairs.pop(key, None) is not None and self._budget is not None:
            self._budget.remove((self, key))

    def items(self) -> Iterator[tuple[store.Key, Pair]]:
        """Give everything, to be saved."""
        yield from self._pairs.items()

    def changed(self, key: store.Key, source: bytes, target: bytes) -> Side:
        """Tell who has changed an object; without an agreement both count as changed."""
        agreed = self._pairs.get(key)
        if agreed is None:
            return Side.BOTH
        found = Side.NEITHER
        if not alike(agreed.source, source):
            found |= Side.SOURCE
        if not alike(agreed.target, target):
            found |= Side.TARGET
        return found

    def carry(
        self, key: store.Key, source: bytes, target: bytes, members: Sequence[str]
    ) -> Change | None:
        """Compute what the source changed in `members`, such as spec and data; None: no agreement.

        :param target: the target as it is now
        """
        agreed = self._pairs.get(key)
        if agreed is None:
            return None
        before = _members(agreed.source, members)
        operations = list(_changes("", before, _members(source, members)))
        there = _members(target, members)
        return Change(
            operations,
            tuple(each["path"] for each in operations if _contested(each, before, there)),
        )


def alike(one: bytes, other: bytes) -> bool:
    """Tell whether two states of an object are the same but for the API server's own marks."""
    if one == other:
        return True
    first, second = _MEMBERS.decode(one), _MEMBERS.decode(other)
    if first.keys() != second.keys():
        return False
    return all(
        bytes(first[member]) == bytes(second[member])
        or jsonpatch.same(_content(member, first), _content(member, second))
        for member in first
    )


def edit(raw: bytes, operations: Sequence[Mapping[str, Any]]) -> bytes:
    """Apply a difference to an object's bytes; members it does not touch stay byte for byte.

    :raises PatchError: when it does not fit, or concerns the object as a whole
    """
    members = _MEMBERS.decode(raw)
    touched: dict[str, Any] = {}
    for operation in operations:
        parts = str(operation["path"]).split("/", 2)
        if len(parts) < 2 or parts[0] or "from" in operation:
            raise errors.PatchError(
                f"{operation['op']} {operation['path']!r}: must be a change within one member"
            )
        name = _name(parts[1])
        if name not in touched and name in members:
            touched[name] = msgspec.json.decode(members[name])
    removed = set(touched)
    edited = jsonpatch.apply(touched, operations)
    removed -= edited.keys()
    result: dict[str, Any] = {name: each for name, each in members.items() if name not in removed}
    return msgspec.json.encode({**result, **edited})


def _content(member: str, members: Mapping[str, msgspec.Raw]) -> Any:
    value = msgspec.json.decode(members[member])
    if member == "metadata":
        return {name: each for name, each in value.items() if name not in SERVERS}
    return value


def _members(raw: bytes, names: Sequence[str]) -> dict[str, Any]:
    found = _MEMBERS.decode(raw)
    return {name: _content(name, found) for name in names if name in found}


def _changes(path: str, old: Any, new: Any) -> Iterator[dict[str, Any]]:
    """Give the operations from old to new, with lists as a whole.

    A position in the source's list says nothing about the target's, which may have entries of its
    own.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() - new.keys():
            yield {"op": "remove", "path": f"{path}/{jsonpatch.escape(name)}"}
        for name, value in new.items():
            below = f"{path}/{jsonpatch.escape(name)}"
            if name in old:
                yield from _changes(below, old[name], value)
            else:
                yield {"op": "add", "path": below, "value": value}
    elif not jsonpatch.same(old, new):
        yield {"op": "replace", "path": path, "value": new}


_MISSING = object()


def _contested(change: Mapping[str, Any], before: Any, target: Any) -> bool:
    """Tell whether the target has neither what the source had there nor what it has now."""
    parent, _, last = change["path"].rpartition("/")
    where = _at(target, parent)
    if not isinstance(where, dict):
        return True
    now = where.get(_name(last), _MISSING)
    wanted = change.get("value", _MISSING)
    return not _same(now, _at(before, change["path"])) and not _same(now, wanted)


def _same(one: Any, other: Any) -> bool:
    if one is _MISSING or other is _MISSING:
        return one is other
    return jsonpatch.same(one, other)


def _at(document: Any, path: str) -> Any:
    for token in path.split("/")[1:]:
        name = _name(token)
        if not isinstance(document, dict) or name not in document:
            return _MISSING
        document = document[name]
    return document


def _name(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
