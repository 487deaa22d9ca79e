"""The parsed form of a template: what the compiler walks."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """Anything with a place in the source."""

    at: int


@dataclasses.dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant; a number keeps all that it could be, since Go's literals take their type from use.

    `value` is a bool, a text, None, or for numbers the value that it has by itself.
    """

    value: Any
    whole: int | None = None
    real: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Dot(Node):
    """The current value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Field(Node):
    """``.a.b``: fields of the current value."""

    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Variable(Node):
    """``$x.a.b``; `slot` is where the variable lives."""

    slot: int
    name: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Chain(Node):
    """``(...).a.b``: fields of what a pipeline or a function gives."""

    base: Operand
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Function(Node):
    """A name of a function, called with the operands that follow it."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Command(Node):
    """One stage of a pipeline."""

    operands: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline(Node):
    """Commands joined by ``|``, and the variables that take the result."""

    commands: tuple[Command, ...]
    slots: tuple[int, ...] = ()


Operand = Literal | Dot | Field | Variable | Chain | Function | Pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class Text(Node):
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Action(Node):
    """A pipeline that is printed, unless it only sets a variable."""

    pipeline: Pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class Branch(Node):
    """``if``, ``with`` and ``range`` with their two bodies."""

    keyword: str
    pipeline: Pipeline
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Leave(Node):
    """``break`` or ``continue``."""

    keyword: str


@dataclasses.dataclass(frozen=True, slots=True)
class Call(Node):
    """``template``: fill another template here."""

    name: str
    pipeline: Pipeline | None


Statement = Text | Action | Branch | Leave | Call


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """One template: its statements and how many variables it has, ``$`` included."""

    statements: tuple[Statement, ...]
    variables: int
