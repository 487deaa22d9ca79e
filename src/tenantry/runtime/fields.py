"""What `managedFields` says: which manager owns which fields of an object.

Pure functions over the API server's FieldsV1 form: ``f:name`` is a field, ``k:{...}`` an item of a
list by its keys, ``v:...`` an item of a set, ``.`` the parent itself; an empty object is a leaf.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tenantry.runtime import jsonpatch

Object = Mapping[str, Any]
Fields = Mapping[str, Any]

#: Identity, not fields: never owned by anybody.
_IDENTITY = frozenset({"apiVersion", "kind"})
_IDENTITY_METADATA = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "managedFields", "creationTimestamp"}
)


def owned(observed: Object, manager: str, *, subresource: str = "") -> Fields | None:
    """Return the fields a manager has applied, None when it never did."""
    for entry in (observed.get("metadata") or {}).get("managedFields") or ():
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and (entry.get("subresource") or "") == subresource
        ):
            found: Fields = entry.get("fieldsV1") or {}
            return found
    return None


def differs(desired: Object, observed: Object, manager: str, *, subresource: str = "") -> bool:
    """Tell whether applying `desired` as `manager` would change `observed`.

    True when a wanted field is missing, different or not (any longer) owned by the manager, and
    when the manager owns a field that is no longer wanted. Values are compared as they are
    written: "1000m" is not "1". What the server normalises should be written in its normal form.
    """
    wanted = {key: value for key, value in desired.items() if key not in _IDENTITY}
    metadata = wanted.pop("metadata", None) or {}
    rest = {key: value for key, value in metadata.items() if key not in _IDENTITY_METADATA}
    if rest:
        wanted["metadata"] = rest
    # Who owns nothing has no entry.
    return _dict_differs(wanted, observed, owned(observed, manager, subresource=subresource) or {})


def _differs(desired: Any, observed: Any, fields: Fields) -> bool:
    # Whether anything but the parent itself is owned below.
    owns = len(fields) > ("." in fields)
    if isinstance(desired, dict) and isinstance(observed, dict) and (owns or not desired):
        return _dict_differs(desired, observed, fields)
    if isinstance(desired, list) and isinstance(observed, list) and (owns or not desired):
        return _list_differs(desired, observed, fields)
    return not jsonpatch.same(desired, observed)


def _dict_differs(desired: Object, observed: Object, fields: Fields) -> bool:
    unwanted = len(fields) - ("." in fields)
    for key, value in desired.items():
        if value is None:
            continue  # the server drops nulls
        below = fields.get("f:" + key)
        if below is None:
            return True
        found = observed.get(key)
        # Most of what there is are texts, and most often the same.
        if value != found if isinstance(value, str) else _differs(value, found, below):
            return True
        unwanted -= 1
    return unwanted > 0 and any(
        name.startswith("f:") and desired.get(name[2:]) is None for name in fields
    )


def _list_differs(desired: list[Any], observed: list[Any], fields: Fields) -> bool:
    unmatched = list(desired)
    for name, below in fields.items():
        if name.startswith("v:"):
            value = _key(name)
            if _take(unmatched, lambda item, value=value: jsonpatch.same(item, value)) is None:
                return True
        elif name.startswith("k:"):
            keys = _key(name)
            wanted = _take(unmatched, lambda item, keys=keys: _keyed(item, keys, loose=True))
            found = next((item for item in observed if _keyed(item, keys)), None)
            if wanted is None or found is None:
                return True
            if not below:
                # Owned as a whole, as ownerReferences are.
                if not jsonpatch.same(wanted, found):
                    return True
                continue
            # Keys that the server filled in (a port's protocol) are owned although not written.
            implied = {f"f:{key}" for key in keys if key not in wanted}
            if implied:
                below = {key: sub for key, sub in below.items() if key not in implied}
            if _dict_differs(wanted, found, below):
                return True
    return bool(unmatched)


@functools.lru_cache(maxsize=4096)
def _key(name: str) -> Any:
    """Read what tells an item from others; the same ones are asked about again and again."""
    return msgspec.json.decode(name[2:])


def _take(items: list[Any], test: Any) -> Any:
    for index, item in enumerate(items):
        if test(item):
            return items.pop(index)
    return None


def _keyed(item: Any, keys: Object, *, loose: bool = False) -> bool:
    """Tell whether an item has the keys; loosely, those of them that it has, at least one."""
    if not isinstance(item, dict):
        return False
    some = False
    for key, value in keys.items():
        if key in item:
            if item[key] != value:
                return False
            some = True
        elif not loose and value is not None:
            return False
    return some or not loose


def adopt_fields(
    obj: Object, from_managers: Collection[str], to: str, *, subresource: str = ""
) -> list[dict[str, Any]] | None:
    """Move what other managers own by `Update` to our `Apply` entry; None when there is nothing.

    Without this, a key that the product before us has written and nobody wants any longer would
    stay for ever: server-side apply removes only what the applying manager owns alone.
    """
    entries = [dict(entry) for entry in (obj.get("metadata") or {}).get("managedFields") or ()]
    moved = [
        entry
        for entry in entries
        if entry.get("manager") in from_managers
        and entry.get("operation") == "Update"
        and (entry.get("subresource") or "") == subresource
    ]
    if not moved:
        return None
    ours = next(
        (
            entry
            for entry in entries
            if entry.get("manager") == to
            and entry.get("operation") == "Apply"
            and (entry.get("subresource") or "") == subresource
        ),
        None,
    )
    if ours is None:
        ours = {**moved[0], "manager": to, "operation": "Apply"}
        entries.append(ours)
    united: dict[str, Any] = copy.deepcopy(dict(ours.get("fieldsV1") or {}))
    for entry in moved:
        _unite(united, entry.get("fieldsV1") or {})
    ours["fieldsV1"] = united
    return [entry for entry in entries if not any(entry is gone for gone in moved)]


def _unite(target: dict[str, Any], more: Fields) -> None:
    for name, below in more.items():
        _unite(target.setdefault(name, {}), below)
