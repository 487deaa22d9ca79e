"""Which fields a manifest sets, as paths.

A field that holds what the schema would have filled in anyway counts as not set: after the API
server has defaulted an object, nobody can tell whether its author wrote the value.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenantry.api.capsule import common, tenant


class _Field(msgspec.Struct, frozen=True):
    default: Any
    #: The Struct that the value, or each item of it, is; None where the path ends.
    inner: type[common.Wire] | None
    many: bool


def set_paths(spec: Mapping[str, Any]) -> list[str]:
    """Return the dotted paths of every field that a Tenant's spec sets, sorted, each once.

    Paths begin below ``spec``; items of a list are ``[]``, as in ``owners[].kind``. A path ends
    at a scalar, a map, or a piece of a core type (``nodeSelector``, ``networkPolicies.items[]``).
    A field that the schema does not know is a path too.
    """
    return sorted(set(_walk(spec, tenant.TenantSpec, "")))


def _walk(value: Mapping[str, Any], struct: type[common.Wire], prefix: str) -> Iterator[str]:
    known = _fields(struct)
    for key, item in value.items():
        path = f"{prefix}{key}"
        field = known.get(key)
        if item is None or (field is not None and item == field.default):
            continue
        if field is not None and field.many and isinstance(item, list):
            for entry in item:
                yield from _inside(entry, field, f"{path}[]")
        else:
            yield from _inside(item, field, path)


def _inside(value: Any, field: _Field | None, path: str) -> Iterator[str]:
    if field is not None and field.inner is not None and isinstance(value, Mapping):
        yield from _walk(value, field.inner, f"{path}.")
    else:
        yield path


@functools.cache
def _fields(struct: type[common.Wire]) -> dict[str, _Field]:
    found = {}
    for info in msgspec.structs.fields(struct):
        default = None if info.default is msgspec.NODEFAULT else info.default
        if info.default_factory is not msgspec.NODEFAULT:
            default = info.default_factory()
        kind, many = _unwrap(info.type), False
        if typing.get_origin(kind) is list:
            kind, many = _unwrap(typing.get_args(kind)[0]), True
        inner = kind if isinstance(kind, type) and issubclass(kind, common.Wire) else None
        # A list of scalars is a value like any other; of structs or core types it has items.
        many = many and (inner is not None or kind is dict or typing.get_origin(kind) is dict)
        found[info.encode_name] = _Field(msgspec.to_builtins(default), inner, many)
    return found


def _unwrap(kind: Any) -> Any:
    """Take off `Annotated` and `| None`."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in {typing.Union, types.UnionType}:
            (kind, *others) = [a for a in typing.get_args(kind) if a is not type(None)]
            if others:  # a scalar of several types, such as a quantity
                return str
        else:
            return kind
