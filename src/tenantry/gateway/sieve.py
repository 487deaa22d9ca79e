"""Keep of an answer only what may be shown. Pure: bytes in, bytes out.

Objects, lists and watches in JSON and protobuf, Tables in JSON; what cannot be understood is not shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.gateway import decide, events, protobuf, seen, terms

#: Objects of one watch that are remembered as shown.
_REMEMBERED = 100_000


Predicate = Callable[[seen.Seen], bool]

_LIST = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_META = msgspec.json.Decoder(dict[str, Any])


def predicate(order: decide.Sieve) -> Predicate:
    """Return the test that an order stands for."""

    def shown(one: seen.Seen) -> bool:
        labels = one.labels or {}
        if terms.shows(order.terms, one.name, labels):
            return True
        label = labels.get(constants.TENANT_LABEL)
        return label in order.tenants and _owned_by(one) == label

    return shown


def _owned_by(one: seen.Seen) -> str | None:
    """Return the tenant that the only Tenant reference names, as the directory reads it."""
    names = [
        reference.name
        for reference in one.owner_references or ()
        if reference.kind == capsule.TENANTS.kind
        and reference.api_version.partition("/")[0] == constants.GROUP
    ]
    return names[0] if len(names) == 1 else None


def single(body: bytes, shown: Predicate) -> bool:
    """Tell whether the one object of an answer (or each row of its Table) may be shown."""
    try:
        if protobuf.is_it(body):
            return shown(protobuf.of_object(body))
        return all(map(shown, seen.of_each(body)))
    except (msgspec.MsgspecError, ValueError):
        return False


def listed(body: bytes, shown: Predicate) -> bytes:
    """Return a list or Table with what may be shown.

    :raises ValueError: when it is neither
    """
    if protobuf.is_it(body):
        found = protobuf.parse_list(body)
        found.items = [item for item in found.items if _keeps_binary(item, shown)]
        return protobuf.write_list(found)
    whole = _LIST.decode(body)
    table = seen.is_table(body)
    key = "rows" if table else "items"
    kept = [item for item in _ITEMS.decode(whole.get(key) or b"[]") if _keeps(item, table, shown)]
    whole[key] = msgspec.Raw(msgspec.json.encode(kept))
    if "metadata" in whole:
        metadata = _META.decode(whole["metadata"])
        # It would tell how many there are that are not shown.
        metadata.pop("remainingItemCount", None)
        whole["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(whole)


def _keeps(item: msgspec.Raw, table: bool, shown: Predicate) -> bool:
    try:
        one = seen.of_row(item) if table else seen.of_object(item)
    except msgspec.MsgspecError:
        return False
    return shown(one)


def _keeps_binary(item: bytes, shown: Predicate) -> bool:
    try:
        return shown(protobuf.of_item(item))
    except ValueError:
        return False


class WatchSieve:
    """Follows one watch. Objects that leave what is shown are deleted for the client."""

    def __init__(
        self,
        shown: Predicate,
        form: events.Form = events.JSON,
        framed: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Take the form of the events, and how the client gets them if not as they came."""
        self._shown = shown
        self._form = form
        self._framed = framed or form.framed
        self._splitter = form.splitter()
        self._remembered: set[str] = set()

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the stream; return what the client gets of it.

        :raises KubeError: when the stream is no watch
        """
        found = [self._event(event) for event in self._splitter.feed(data)]
        return b"".join(self._framed(event) for event in found if event)

    def _event(self, event: bytes) -> bytes:
        found = self._form.decode(event)
        if found.type in {"BOOKMARK", "ERROR"}:
            return event
        try:
            one = self._form.seen(found)
        except (msgspec.MsgspecError, ValueError):
            return b""
        visible = self._shown(one)
        known = one.uid in self._remembered
        if visible and found.type != "DELETED":
            if len(self._remembered) < _REMEMBERED:
                self._remembered.add(one.uid)
            return event
        self._remembered.discard(one.uid)
        if found.type == "DELETED":
            return event if visible or known else b""
        return self._form.deleted(found) if known else b""
