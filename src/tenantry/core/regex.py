"""Regular expressions as users write them: RE2, searched anywhere, linear in time.

Go's `regexp` is RE2, so an expression means here what it means in the products whose manifests
we accept, and no expression can be made to backtrack.
"""

from __future__ import annotations

import functools
from typing import Any

import re2

from tenantry.core import errors

LONGEST = 4096
_MEMORY = 8 << 20


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    return re2.compile(expression, _options())


def compile(expression: str, field: str) -> Any:  # noqa: A001 - called as regex.compile
    """Compile an expression; the result has `search(text)`.

    :raises InvalidValueError: when RE2 refuses it, with RE2's reason
    """
    if len(expression) > LONGEST:
        raise errors.InvalidValueError(
            field, expression, f"must be at most {LONGEST} characters long"
        )
    try:
        return _compiled(expression)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else problem
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise errors.InvalidValueError(
            field, expression, f"must be a valid RE2 regular expression: {reason}"
        ) from None


def found(expression: str, text: str) -> bool:
    """Tell whether a valid expression matches anywhere in `text`; an invalid one matches nothing.

    Validation refuses invalid expressions at admission; one that was stored before must not open
    or crash anything.
    """
    if not expression or len(expression) > LONGEST:
        return False
    try:
        return _compiled(expression).search(text) is not None
    except re2.error:
        return False
