"""What filling templates may use: counted, never timed, so that it is the same everywhere.

Three counts. *Steps*: every action, operand, function and list item is one, and functions that read
long text pay for its length. *Made*: characters and items of everything built on the way, whether
or not it is thrown away, so that it also bounds memory. *Output*: characters of the result.
"""

from __future__ import annotations

import dataclasses

from tenantry.core.templates import errors

#: Characters that a function may read for the price of one step.
PER_STEP = 64
#: Nested blocks, parentheses, template calls and nested values, each.
DEPTH = 100


@dataclasses.dataclass(frozen=True)
class Limits:
    """The bounds of one filling, or of several together; what is normal stays far below them."""

    steps: int = 100_000
    made: int = 4 << 20
    output: int = 1 << 20


class Budget:
    """What is left of the limits, and where the result goes."""

    __slots__ = ("depth", "limits", "made", "output", "parts", "steps")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = limits.steps
        self.made = limits.made
        self.output = limits.output
        self.depth = DEPTH
        self.parts: list[str] = []

    def begin(self) -> None:
        """Turn to the next of the templates that share what is left."""
        self.parts = []
        self.depth = DEPTH

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0:
            raise errors.Exhausted(f"takes more than {self.limits.steps} steps")

    def read(self, length: int) -> None:
        """Pay for reading so many characters or items."""
        self.step(1 + length // PER_STEP)

    def make(self, length: int) -> None:
        """Pay for building so many characters or items; call it before they are built."""
        self.steps -= 1 + length // PER_STEP
        self.made -= length
        if self.made < 0 or self.steps < 0:
            if self.made < 0:
                raise errors.Exhausted(f"builds more than {self.limits.made} characters on the way")
            raise errors.Exhausted(f"takes more than {self.limits.steps} steps")

    def write(self, text: str) -> None:
        self.output -= len(text)
        if self.output < 0:
            raise errors.Exhausted(f"gives more than {self.limits.output} characters")
        self.parts.append(text)

    def enter(self) -> None:
        """Go one level deeper; the caller calls `leave`, except on the way of an error."""
        self.depth -= 1
        if self.depth < 0:
            raise errors.Exhausted(f"is nested more than {DEPTH} levels deep")

    def leave(self) -> None:
        self.depth += 1
