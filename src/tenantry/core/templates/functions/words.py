"""Text seen as words: cases, titles, wrapping."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.core.templates import budget
from tenantry.core.templates.functions import registry, strings


def _is_space(char: str) -> bool:
    return char in strings.SPACE


def _each(text: str, change: Callable[[str, bool], str], boundary: Callable[[str], bool]) -> str:
    """Change every character, telling whether a word begins with it."""
    out: list[str] = []
    begins = True
    for char in text:
        out.append(change(char, begins))
        begins = boundary(char)
    return "".join(out)


@registry.function("title", "string")
def _title(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return _each(text, lambda c, begins: _titled(c) if begins else c, _separates)


def _titled(char: str) -> str:
    changed = char.title()
    return changed if len(changed) == 1 else char


def _separates(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not char.isalnum() and _is_space(char)


@registry.function("untitle", "string")
def _untitle(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return _each(text, lambda c, begins: strings.lower_char(c) if begins else c, _is_space)


@registry.function("swapcase", "string")
def _swapcase(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))

    def change(char: str, begins: bool) -> str:
        if char.isupper() or char.istitle():
            return strings.lower_char(char)
        if char.islower():
            return _titled(char) if begins else strings.upper_char(char)
        return char

    return _each(text, change, _is_space)


@registry.function("initials", "string")
def _initials(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return "".join(word[0] for word in _words(text))


def _words(text: str) -> list[str]:
    spaced = "".join(" " if _is_space(char) else char for char in text)
    return [word for word in spaced.split(" ") if word]


@registry.function("wrap", "int string")
def _wrap(counted: budget.Budget, width: int, text: str) -> str:
    return _wrapped(counted, width, "\n", text, cut=False)


@registry.function("wrapWith", "int string string")
def _wrap_with(counted: budget.Budget, width: int, separator: str, text: str) -> str:
    return _wrapped(counted, width, separator or "\n", text, cut=True)


def _wrapped(counted: budget.Budget, width: int, separator: str, text: str, *, cut: bool) -> str:
    """Break lines at spaces; words longer than a line are cut only on request."""
    width = max(width, 1)
    counted.make(len(text) + (len(text) // width + 1) * len(separator))
    counted.step(len(text) // width + 1)
    out: list[str] = []
    at, length = 0, len(text)
    while length - at > width:
        if text[at] == " ":
            at += 1
            continue
        end = text.rfind(" ", at, at + width + 1)
        if end >= at:
            out += [text[at:end], separator]
            at = end + 1
        elif cut:
            out += [text[at : at + width], separator]
            at += width
        else:
            end = text.find(" ", at + width)
            if end < 0:
                break
            out += [text[at:end], separator]
            at = end + 1
    out.append(text[at:])
    return "".join(out)
