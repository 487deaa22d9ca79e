"""The rules of structural schemas, checked without an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]

_KEYWORDS = {
    "additionalProperties", "allOf", "anyOf", "default", "description", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "nullable", "oneOf",
    "pattern", "properties", "required", "title", "type", "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip
_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}
_BRANCHES = ("allOf", "anyOf", "oneOf")
_NOT_IN_BRANCHES = {"default", "description", "additionalProperties", "nullable", "title", "type"}
_ROOT_METADATA = {"name", "generateName"}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def problems(root: Node) -> list[str]:
    """Return what the API server would refuse in a version's schema, one line each."""
    found = list(_node(root, ""))
    metadata = root.get("properties", {}).get("metadata", {})
    restricted = set(metadata.get("properties", {}))
    if not restricted <= _ROOT_METADATA:
        found.append(f".metadata: only {sorted(_ROOT_METADATA)} can be restricted")
    return found


def _node(node: Node, path: str) -> Iterator[str]:
    where = path or "."
    for keyword in sorted(set(node) - _KEYWORDS):
        yield f"{where}: {keyword} is not a keyword of structural schemas"
    kind = node.get("type")
    free = node.get("x-kubernetes-int-or-string") or node.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if kind is None and not free:
        yield f"{where}: has no type"
    if kind is not None and kind not in _TYPES:
        yield f"{where}: type {kind} is unknown"
    if node.get("x-kubernetes-int-or-string"):
        if kind is not None:
            yield f"{where}: int-or-string has no type of its own"
        if node.get("anyOf") != INT_OR_STRING:
            yield f"{where}: int-or-string is written as anyOf integer, string"
    else:
        for keyword in (*_BRANCHES, "not"):
            for branch in node[keyword] if keyword in _BRANCHES and keyword in node else ():
                yield from _branch(branch, f"{path}.{keyword}")
        if "not" in node:
            yield from _branch(node["not"], f"{path}.not")
    if "properties" in node and "additionalProperties" in node:
        yield f"{where}: properties and additionalProperties exclude each other"
    if kind == "array" and "items" not in node:
        yield f"{where}: an array needs items"
    for name in node.get("required", []):
        if name not in node.get("properties", {}):
            yield f"{where}: requires {name}, which it does not have"
    yield from _list_type(node, where)
    yield from _rules(node, where)
    if "default" in node:
        yield from _value(node["default"], node, f"{path}.default")
    for name, child in node.get("properties", {}).items():
        yield from _node(child, f"{path}.{name}")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _node(node["additionalProperties"], f"{path}.*")
    if "items" in node:
        yield from _node(node["items"], f"{path}[]")


def _branch(node: Node, path: str) -> Iterator[str]:
    for keyword in sorted(set(node) & _NOT_IN_BRANCHES):
        yield f"{path}: {keyword} may not stand in a branch"
    for child in node.get("properties", {}).values():
        yield from _branch(child, path)


def _list_type(node: Node, where: str) -> Iterator[str]:
    keys = node.get("x-kubernetes-list-map-keys")
    if (node.get("x-kubernetes-list-type") == "map") != bool(keys):
        yield f"{where}: list type map and its keys go together"
    items = node.get("items", {})
    for key in keys or []:
        field = items.get("properties", {}).get(key, {})
        if not field:
            yield f"{where}: map key {key} is not a field of the items"
        elif key not in items.get("required", []) and "default" not in field:
            yield f"{where}: map key {key} must be required or have a default"


def _rules(node: Node, where: str) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", []):
        if not rule.get("rule") or not rule.get("message"):
            yield f"{where}: a rule needs a text and a message"


def _value(value: Any, node: Node, path: str) -> Iterator[str]:
    """Check a default as the API server checks it: pruned and valid."""
    expected = _TYPES.get(node.get("type", ""))
    if expected and (
        not isinstance(value, expected) or (isinstance(value, bool) and expected is int)
    ):
        yield f"{path}: {value!r} is not of type {node['type']}"
        return
    if "enum" in node and value not in node["enum"]:
        yield f"{path}: {value!r} is not one of {node['enum']}"
    if isinstance(value, dict) and "properties" in node:
        for key, item in value.items():
            if key in node["properties"]:
                yield from _value(item, node["properties"][key], f"{path}.{key}")
            else:
                yield f"{path}: {key} is not a field"
        defaulted = {key for key, child in node["properties"].items() if "default" in child}
        for key in set(node.get("required", [])) - set(value) - defaulted:
            yield f"{path}: lacks {key}"
    if isinstance(value, list):
        for item in value:
            yield from _value(item, node.get("items", {}), f"{path}[]")
