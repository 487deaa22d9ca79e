"""From msgspec Structs to structural schemas.

It reads the annotations themselves and not `msgspec.inspect`, which sorts the values of a
`Literal`, and loses what stands on an optional type.
"""

from __future__ import annotations

import copy
import types
import typing
from typing import Any

import msgspec
from tools.crdgen import core_types, descriptions

from tenantry.api import meta, schema

Node = dict[str, Any]

#: Keywords in the order in which they are written; what is not listed comes last, by name.
ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "anyOf",
    "required",
    "properties",
    "additionalProperties",
    "items",
)

_SCALARS: dict[Any, str] = {str: "string", int: "integer", bool: "boolean"}


class UnknownTypeError(TypeError):
    """Raised when an annotation has no counterpart in a structural schema."""

    def __init__(self, annotation: Any) -> None:
        super().__init__(f"no schema for {annotation!r}: annotate it with schema.Core or facts")


def struct(kind: type[msgspec.Struct], description: str = "") -> Node:
    """Build the schema of a Struct; `description` takes the place of its docstring."""
    hints = typing.get_type_hints(kind, include_extras=True)
    texts = descriptions.of_fields(kind)
    properties: Node = {}
    required = []
    for field in msgspec.structs.fields(kind):
        if field.type is meta.ObjectMeta:
            continue  # the API server's own; the root adds what it restricts
        node = place(hints[field.name], texts.get(field.name, ""))
        default = _default(field)
        if default is not None:
            node.setdefault("default", default)
        properties[field.encode_name] = ordered(node)
        if field.required:
            required.append(field.encode_name)
    node = {
        "description": description or descriptions.of_struct(kind),
        "type": "object",
        "properties": properties,
    }
    if required:
        node["required"] = required
    _mark(node, getattr(kind, "SCHEMA", ()))
    return ordered(node)


def place(annotation: Any, description: str = "") -> Node:
    """Build the schema of one annotated place.

    :raises UnknownTypeError: when the annotation has no counterpart
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        node = _annotated(arguments[0], arguments[1:])
    elif origin in {typing.Union, types.UnionType}:
        options = [a for a in arguments if a is not type(None)]
        # Several scalars are one place only with facts that say how (int-or-string).
        node = place(options[0]) if len(options) == 1 else {}
    elif origin is typing.Literal:
        node = {"type": "string", "enum": list(arguments)}
    elif origin is list:
        node = {"type": "array", "items": _bare(place(arguments[0]))}
    elif origin is dict:
        node = {"type": "object", "additionalProperties": _bare(place(arguments[1]))}
    elif annotation in _SCALARS:
        node = {"type": _SCALARS[annotation]}
    elif annotation is Any:
        node = {}
    elif isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        node = struct(annotation, description)
    else:
        raise UnknownTypeError(annotation)
    if description:
        node["description"] = description
    return ordered(node)


def ordered(node: Node) -> Node:
    """Sort the keywords of one node into reading order."""
    rank = {keyword: index for index, keyword in enumerate(ORDER)}
    return dict(sorted(node.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0])))


def _annotated(annotation: Any, markers: tuple[Any, ...]) -> Node:
    core = [marker for marker in markers if isinstance(marker, schema.Core)]
    node = copy.deepcopy(core_types.SCHEMAS[core[0].name]) if core else place(annotation)
    _mark(node, markers)
    return node


def _mark(node: Node, markers: typing.Iterable[Any]) -> None:
    for marker in markers:
        if isinstance(marker, schema.Facts):
            node.update(copy.deepcopy(dict(marker.keys)))
        elif isinstance(marker, schema.Rule):
            rule = {"rule": marker.expression, "message": marker.message}
            node.setdefault("x-kubernetes-validations", []).append(rule)


def _bare(node: Node) -> Node:
    """Leave out what only repeats the field's own text: an item's docstring."""
    return {key: value for key, value in node.items() if key != "description"}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """Give what an absent field means, where it is worth writing into stored objects.

    Empty strings, lists and maps and the number 0 are what absence means anyway, and objects
    made by a factory hold defaults of their own.
    """
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or isinstance(value, msgspec.Struct):
        return None
    return value if isinstance(value, bool) else value or None
