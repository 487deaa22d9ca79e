"""What the schema of a field says beyond its Python type.

Annotations for `typing.Annotated`, read by the CRD generator only. They are not enforced on
decoding: what the API server stored, perhaps under an older and looser schema, must stay readable.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias

#: How the API server writes and accepts `resource.Quantity`.
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Schema keywords of the annotated place, such as ``minimum`` or ``x-kubernetes-list-type``.

    A Struct lists its own in ``SCHEMA``. Compared by identity: `typing` hashes annotations, and values may be lists.
    """

    keys: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Core:
    """The annotated dict is a core type, kept opaque in Python; its schema is the generator's."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule over the annotated place, or over a Struct that lists it in its ``SCHEMA``."""

    expression: str
    message: str


def facts(**keys: Any) -> Facts:
    """Collect schema keywords; a list or dict value is given as it shall stand in the schema."""
    return Facts(tuple(keys.items()))


def map_by(*keys: str) -> Facts:
    """Mark a list whose items are told apart by `keys`: duplicates are refused, appliers merge."""
    return Facts((("x-kubernetes-list-type", "map"), ("x-kubernetes-list-map-keys", list(keys))))


INT32 = facts(format="int32")
INT64 = facts(format="int64")
NOT_EMPTY = facts(minLength=1)
SOME = facts(minItems=1)
#: The whole map belongs to one applier, as a selector does.
ATOMIC_MAP = Facts((("x-kubernetes-map-type", "atomic"),))
#: A name as namespaces and ServiceAccounts have it.
DNS_LABEL = facts(maxLength=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")

#: An RFC 3339 time, kept as the text of the wire.
Time: TypeAlias = Annotated[str, facts(format="date-time")]

#: A quantity as a manifest writes it; `core.quantity.parse` gives the exact number.
Quantity: TypeAlias = Annotated[
    str | int,
    Facts(
        (
            ("anyOf", [{"type": "integer"}, {"type": "string"}]),
            ("pattern", QUANTITY_PATTERN),
            ("x-kubernetes-int-or-string", True),
        )
    ),
]

#: Any JSON value, kept as it is.
Anything: TypeAlias = Annotated[Any, Facts((("x-kubernetes-preserve-unknown-fields", True),))]
