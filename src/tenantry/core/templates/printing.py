"""Values into text as Go's fmt does: what an action prints, and the verbs of printf."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tenantry.core.templates import budget, errors, values, verbs

_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>(?:\[[^\]]*\]?)?(?:\*|[0-9]+)?)"
    r"(?P<precision>\.(?:\[[^\]]*\]?)?(?:\*|[0-9]+)?)?(?P<index>\[[^\]]*\]?)?(?P<verb>.?)",
    re.DOTALL,
)


def shown(value: Any, counted: budget.Budget) -> str:
    """Return what an action prints."""
    if value is values.MISSING or value is None:
        return "<no value>"
    return verb(value, counted)


def verb(value: Any, counted: budget.Budget) -> str:
    """Format with %v."""
    match value:
        case str():
            counted.make(len(value))
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
    printer = verbs.Printer(counted)
    printer.top(value, "v", verbs.PLAIN)
    return printer.text()


def joined(arguments: Sequence[Any], counted: budget.Budget) -> str:
    """Format as Go's Sprint: spaces only between neighbours that are both no texts."""
    parts: list[str] = []
    before = True
    for argument in arguments:
        is_text = isinstance(argument, str)
        if not (before or is_text):
            parts.append(" ")
        parts.append(verb(argument, counted))
        before = is_text
    return "".join(parts)


def line(arguments: Sequence[Any], counted: budget.Budget) -> str:
    """Format as Go's Sprintln: spaces between all, and a new line."""
    return " ".join(verb(argument, counted) for argument in arguments) + "\n"


def formatted(layout: str, arguments: Sequence[Any], counted: budget.Budget) -> str:
    """Format as Go's Sprintf; mistakes appear in the result, as there."""
    printer = verbs.Printer(counted)
    position = following = 0
    reordered = False
    while True:
        start = layout.find("%", position)
        if start < 0:
            printer.add(layout[position:])
            break
        printer.add(layout[position:start])
        match = _DIRECTIVE.match(layout, start)
        if match is None:
            raise errors.Failure("unreadable directive")
        position = match.end()
        reading = _Reading(arguments, following, reordered=False)
        options = reading.options(match)
        following, reordered = reading.following, reordered or reading.reordered
        letter = match["verb"]
        if options is None or not letter:
            printer.add("%!(NOVERB)")
            break
        printer.add(reading.complaint)
        if letter == "%":
            printer.add("%")
        elif not reading.good:
            printer.add(f"%!{letter}(BADINDEX)")
        elif following >= len(arguments):
            printer.add(f"%!{letter}(MISSING)")
        else:
            printer.top(arguments[following], letter, options)
            following += 1
    if not reordered and following < len(arguments):
        printer.add("%!(EXTRA ")
        for index, argument in enumerate(arguments[following:]):
            printer.add(", " if index else "")
            if argument is None:
                printer.add("<nil>")
            else:
                printer.add(f"{values.type_name(argument)}=")
                printer.top(argument, "v", verbs.PLAIN)
        printer.add(")")
    return printer.text()


class _Reading:
    """The numbers of one directive, some of which may stand among the arguments."""

    def __init__(self, arguments: Sequence[Any], following: int, *, reordered: bool) -> None:
        self._arguments = arguments
        self.following = following
        self.reordered = reordered
        self.good = True
        self.complaint = ""

    def options(self, match: re.Match[str]) -> verbs.Options | None:
        """Return None where Go gives up reading the directive."""
        flags = match["flags"]
        minus = "-" in flags
        width = self._number(match["width"], "%!(BADWIDTH)")
        if width is None:
            return None
        if width < -1:
            minus, width = True, -width
        precision = -1
        if match["precision"] is not None:
            before = self.complaint
            read = self._number(match["precision"][1:], "%!(BADPREC)")
            if read is None:
                return None
            # A point alone means none at all; a bad or negative one is as if not written.
            bare = match["precision"] == "."
            precision = 0 if bare and self.complaint == before else max(read, -1)
            if read < -1:
                self.complaint += "%!(BADPREC)"
        if match["index"]:
            self._index(match["index"])
        return verbs.Options(
            plus="+" in flags,
            minus=minus,
            sharp="#" in flags,
            space=" " in flags,
            zero="0" in flags and not minus,
            width=width,
            precision=precision,
        )

    def _number(self, text: str, complaint: str) -> int | None:
        if text.startswith("["):
            end = text.find("]") + 1 or len(text)
            self._index(text[:end])
            text = text[end:]
            if text != "*":
                # An index before the width that is no star: Go calls it a bad index.
                self.good = False if text else self.good
                return -1
        if text == "*":
            given = self._argument()
            if (
                isinstance(given, int)
                and not isinstance(given, bool)
                and abs(given) <= verbs.WIDEST
            ):
                return int(given)
            self.complaint += complaint
            return -1
        if not text:
            return -1
        number = int(text) if len(text) < 9 else verbs.WIDEST + 1
        return number if number <= verbs.WIDEST else None

    def _argument(self) -> Any:
        if self.following >= len(self._arguments):
            return None
        self.following += 1
        return self._arguments[self.following - 1]

    def _index(self, text: str) -> None:
        self.reordered = True
        inner = text[1:-1] if text.endswith("]") else ""
        if inner.isdigit() and len(inner) < 7 and 1 <= int(inner) <= len(self._arguments):
            self.following = int(inner) - 1
        else:
            self.good = False
