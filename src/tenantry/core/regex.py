"""Regular expressions as users write them: RE2, searched anywhere, linear in time.

Go's `regexp` is RE2, so an expression means here what it means in the products whose manifests
we accept, and no expression can be made to backtrack. Linear is still length times size: counted
repetitions make a short expression large, so both the size and the product are bounded.
"""

from __future__ import annotations

import functools
from typing import Any

import re2

from tenantry.core import errors

LONGEST = 4096
#: Instructions of a compiled expression; a{1000} has a thousand and three.
LARGEST = 20_000
#: Characters times instructions of one search: at most about a second on one core.
MOST_WORK = 200_000_000
#: For one compiled expression and the tables that grow while it searches.
_MEMORY = 1 << 20


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


@functools.lru_cache(maxsize=1024)
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
        compiled = _compiled(expression)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else problem
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise errors.InvalidValueError(
            field, expression, f"must be a valid RE2 regular expression: {reason}"
        ) from None
    except UnicodeEncodeError:
        raise errors.InvalidValueError(field, ascii(expression), "must be valid Unicode") from None
    if compiled.programsize > LARGEST:
        raise errors.InvalidValueError(
            field,
            expression,
            f"must compile to at most {LARGEST} instructions, not {compiled.programsize}: "
            "repeat less",
        )
    return compiled


def work(compiled: Any, length: int) -> int:
    """Return how much a search through so many characters may take, in units of `MOST_WORK`."""
    return int(compiled.programsize) * length


def found(expression: str, text: str, *, unreadable: bool = False) -> bool:
    """Tell whether an expression matches anywhere in `text`; an empty one matches nothing.

    Validation refuses invalid expressions at admission; one that was stored before must not open
    or crash anything.

    :param unreadable: what to answer for an expression that is invalid: whatever keeps closed
    :raises InvalidValueError: when the text is too long for the expression: neither answer would
        be safe, as the expression may allow or deny
    """
    if not expression:
        return False
    try:
        compiled = compile(expression, "expression")
    except errors.InvalidValueError:
        return unreadable
    if work(compiled, len(text)) > MOST_WORK:
        most = MOST_WORK // compiled.programsize
        raise errors.InvalidValueError(
            "value", text, f"must be at most {most} characters long to be searched by this pattern"
        )
    try:
        return compiled.search(text) is not None
    except UnicodeEncodeError:
        # Half a character in JSON's escapes; the API server would not have stored it.
        return compiled.search(text.encode(errors="replace").decode()) is not None
