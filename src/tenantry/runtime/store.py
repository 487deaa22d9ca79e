"""What an informer holds: one value per key, with indexes, and the changes as events."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

#: Namespace and name; the namespace of a cluster-wide object is "".
Key = tuple[str, str]
Index = Callable[[T], Iterable[str]]


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False, kw_only=True):
    """One change of the cache.

    An object that was deleted and created again under its name is two events, whatever the watch
    showed: `old` and `new` of one event are always the same object (uid).
    """

    type: Literal["added", "modified", "deleted"]
    key: Key
    #: What the cache held before; None when added.
    old: T | None = None
    #: What the cache holds now; None when deleted.
    new: T | None = None
    #: The object as it was at its end; None when a relist found it gone.
    final: T | None = None
    #: Whether it comes from the first list, or is replayed to a late subscriber.
    initial: bool = False
    uid: str = ""
    resource_version: str = ""

    @property
    def value(self) -> T:
        """The object itself, whatever happened to it."""
        value = self.new if self.new is not None else self.old
        assert value is not None
        return value


class _Entry(msgspec.Struct, Generic[T], gc=False):
    value: T
    uid: str
    resource_version: str


class Held(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One object of a cache with its identity, as it is saved and restored."""

    key: Key
    uid: str
    resource_version: str
    value: T


@dataclasses.dataclass(frozen=True, slots=True)
class Saved(Generic[T]):
    """A cache's content and the version it is at."""

    resource_version: str
    objects: tuple[Held[T], ...] = ()


class _Lookup(Generic[T]):
    """One index: value -> key -> object, and back."""

    def __init__(self, function: Index[T]) -> None:
        self._function = function
        self._found: dict[str, dict[Key, T]] = {}
        self._values: dict[Key, tuple[str, ...]] = {}

    def put(self, key: Key, value: T) -> None:
        names = tuple(self._function(value))
        for gone in self._values.get(key, ()):
            if gone not in names:
                self._take(gone, key)
        for name in names:
            self._found.setdefault(name, {})[key] = value
        if names:
            self._values[key] = names
        else:
            self._values.pop(key, None)

    def remove(self, key: Key) -> None:
        for name in self._values.pop(key, ()):
            self._take(name, key)

    def get(self, name: str) -> list[T]:
        return list(self._found.get(name, {}).values())

    def names(self) -> list[str]:
        return list(self._found)

    def _take(self, name: str, key: Key) -> None:
        bucket = self._found.get(name)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del self._found[name]


class Store(Generic[T]):
    """The cache itself. Values are shared with every reader and must not be changed."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry[T]] = {}
        self._namespaces: dict[str, dict[Key, None]] = {}
        self._lookups: dict[str, _Lookup[T]] = {}
        self._unseen: set[Key] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> T | None:
        """Return the object under a key."""
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    def list(self, namespace: str | None = None) -> builtins.list[T]:
        """Return all objects, or those of one namespace."""
        if namespace is None:
            return [entry.value for entry in self._entries.values()]
        return [self._entries[key].value for key in self._namespaces.get(namespace, ())]

    def keys(self) -> builtins.list[Key]:
        """Return all keys."""
        return list(self._entries)

    def version(self, key: Key) -> str:
        """Return the resourceVersion of the object under a key, "" when there is none."""
        entry = self._entries.get(key)
        return entry.resource_version if entry is not None else ""

    def uid(self, key: Key) -> str:
        """Return the uid of the object under a key, "" when there is none."""
        entry = self._entries.get(key)
        return entry.uid if entry is not None else ""

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """Return the objects for which the index function gave `value`."""
        return self._lookups[index].get(value)

    def index_values(self, index: str) -> builtins.list[str]:
        """Return every value an index has objects for."""
        return self._lookups[index].names()

    def has_index(self, index: str) -> bool:
        """Tell whether an index of that name exists."""
        return index in self._lookups

    def add_index(self, name: str, function: Index[T]) -> None:
        """Add an index over the present and all future objects."""
        if name in self._lookups:
            raise ValueError(f"index {name!r} exists")
        lookup = _Lookup(function)
        for key, entry in self._entries.items():
            lookup.put(key, entry.value)
        self._lookups[name] = lookup

    def put(
        self,
        key: Key,
        value: T,
        *,
        uid: str,
        resource_version: str,
        initial: bool = False,
        afresh: bool = False,
    ) -> tuple[Event[T], ...]:
        """Set an object; gives nothing when this version of it is already there.

        :param afresh: the server has lost history, so the same version may be something else now
        """
        entry = self._entries.get(key)
        if entry is not None and entry.uid != uid:
            return (*self.remove(key), *self._add(key, value, uid, resource_version, initial))
        if entry is None:
            return self._add(key, value, uid, resource_version, initial)
        if entry.resource_version == resource_version and not (afresh and entry.value != value):
            return ()
        old, entry.value, entry.resource_version = entry.value, value, resource_version
        for lookup in self._lookups.values():
            lookup.put(key, value)
        modified: Event[T] = Event(
            type="modified",
            key=key,
            old=old,
            new=value,
            uid=uid,
            resource_version=resource_version,
        )
        return (modified,)

    def _add(
        self, key: Key, value: T, uid: str, resource_version: str, initial: bool
    ) -> tuple[Event[T], ...]:
        self._entries[key] = _Entry(value, uid, resource_version)
        self._namespaces.setdefault(key[0], {})[key] = None
        for lookup in self._lookups.values():
            lookup.put(key, value)
        added: Event[T] = Event(
            type="added",
            key=key,
            new=value,
            initial=initial,
            uid=uid,
            resource_version=resource_version,
        )
        return (added,)

    def remove(
        self, key: Key, *, uid: str = "", final: T | None = None, resource_version: str = ""
    ) -> tuple[Event[T], ...]:
        """Remove an object; with `uid` only if it is that very one."""
        entry = self._entries.get(key)
        if entry is None or (uid and entry.uid != uid):
            return ()
        del self._entries[key]
        bucket = self._namespaces[key[0]]
        del bucket[key]
        if not bucket:
            del self._namespaces[key[0]]
        for lookup in self._lookups.values():
            lookup.remove(key)
        deleted: Event[T] = Event(
            type="deleted",
            key=key,
            old=entry.value,
            final=final,
            uid=entry.uid,
            resource_version=resource_version or entry.resource_version,
        )
        return (deleted,)

    def mark(self) -> None:
        """Begin a list; one that was begun before counts no longer.

        What it has not shown is kept, not what it has: nearly all is shown, a few at a time, and
        its end is no long turn.
        """
        self._unseen = set(self._entries)

    def sees(self, key: Key, uid: str, resource_version: str) -> bool:
        """Note that the server shows an object; tell whether it is here as it is."""
        if self._unseen:
            self._unseen.discard(key)
        entry = self._entries.get(key)
        return entry is not None and entry.resource_version == resource_version and entry.uid == uid

    def sweep(self) -> Iterator[Event[T]]:
        """Remove what the list did not show: its end, which makes a difference, not a reset."""
        unseen, self._unseen = self._unseen, set()
        for key in unseen:
            yield from self.remove(key)

    def replay(self) -> Iterator[Event[T]]:
        """Tell the present state as events, for a late subscriber."""
        for key, entry in list(self._entries.items()):
            yield Event(
                type="added",
                key=key,
                new=entry.value,
                initial=True,
                uid=entry.uid,
                resource_version=entry.resource_version,
            )

    def held(self) -> Iterator[Held[T]]:
        """Give everything, to be saved."""
        for key, entry in self._entries.items():
            yield Held(key, entry.uid, entry.resource_version, entry.value)
