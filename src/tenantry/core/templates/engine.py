"""Compile a template, and fill it."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from tenantry.core.templates import budget, compiler, errors, lexer, parser, values
from tenantry.core.templates.functions import catalogue

#: What a key that is not in its map gives: ``<no value>``, null, or an error.
MissingKey = Literal["default", "invalid", "zero", "error"]
DEFAULT_LIMITS = budget.Limits()


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A compiled template; it is immutable and can be filled any number of times."""

    source: str
    field: str
    _run: compiler.Run
    _variables: int
    _mutates: bool

    def render(self, data: Any, limits: budget.Limits = DEFAULT_LIMITS) -> str:
        """Fill the template from a decoded JSON value, which is never changed.

        :raises TemplateFailedError: when the data does not fit, with field, line and column
        :raises TemplateLimitError: when it takes more than the limits
        """
        return self.fill(data, budget.Budget(limits))

    def fill(self, data: Any, counted: budget.Budget) -> str:
        """Fill the template as `render` does, from what is left of a budget that several share."""
        counted.begin()
        try:
            if self._mutates:
                data = values.copy(data, counted)
            self._run(compiler.Frame(counted, data, self._variables))
        except errors.Exhausted as failure:
            raise errors.TemplateLimitError(
                self.field, *position(self.source, failure.at or 0), str(failure)
            ) from None
        except errors.Failure as failure:
            raise errors.TemplateFailedError(
                self.field, *position(self.source, failure.at or 0), str(failure)
            ) from None
        except RecursionError:
            # Depth is counted; this is for a caller that has used up the stack before.
            raise errors.TemplateLimitError(
                self.field, 1, 1, "is nested too deeply for the stack that is left"
            ) from None
        return values.clean("".join(counted.parts))


def compile(  # noqa: A001 - called as engine.compile
    source: str, field: str, *, missing_key: MissingKey = "error"
) -> Template:
    """Compile a template.

    :param field: where it is written, for messages, such as ``spec.rules[0].enforce``
    :raises TemplateRefusedError: when anything in it is unknown or wrong, with line and column
    """
    if len(source) > lexer.LONGEST:
        raise errors.TemplateRefusedError(
            field, source, 1, 1, f"must be at most {lexer.LONGEST} characters long"
        )
    try:
        reader = parser.Parser(source, catalogue.FUNCTIONS)
        main = reader.parse()
        compiling = compiler.Compiler(reader.bodies, missing_key)
        run = compiling.compile(main)
    except lexer.Refusal as refusal:
        raise errors.TemplateRefusedError(
            field, source, *position(source, refusal.at), refusal.reason
        ) from None
    return Template(source, field, run, main.variables, compiling.mutates)


def is_template(text: str) -> bool:
    """Tell whether there is anything to fill in a text."""
    return "{{" in text


def position(source: str, at: int) -> tuple[int, int]:
    """Return line and column of an offset, both counted from 1."""
    before = source[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
