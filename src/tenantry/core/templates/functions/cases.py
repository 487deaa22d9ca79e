"""Names in other cases: snake, kebab and camel, as sprig's functions of these names make them.

What a word is follows from what is observed of them: digits go with the letters before, unless small
letters come after; the last of several capitals goes with the small letters that follow it.
"""

from __future__ import annotations

import re
import unicodedata

from tenantry.core.templates import budget
from tenantry.core.templates.functions import registry

#: Over classes of characters: "-" dash or underscore, "c" space, "U" capital, "l" other letter, "9" digit,
#: "p" punctuation, "s" anything else.
_PARTS = re.compile(
    r"(?P<between>[-c])"
    r"|(?P<punctuation>p[-p]*)"
    r"|(?P<word>(?:9+l+)+(?:9+(?![l9]))?|U+(?!l)(?:9+(?![l9]))?|U?l+(?:9+(?![l9]))?"
    r"|9+|s+(?:9+(?![l9]))?)"
)
_SEGMENT = re.compile(r"([^-c]+)([-c]*)")
_OF_CATEGORY = {"N": "9", "L": "l", "P": "p"}


def _class(char: str) -> str:
    if char in "-_":
        return "-"
    if char.isspace():
        return "c"
    if char.isupper():
        return "U"
    return _OF_CATEGORY.get(unicodedata.category(char)[0], "s")


def _separated(text: str, separator: str) -> str:
    """Write words in small letters with a separator between them."""
    out: list[str] = []
    after_word = False
    for found in _PARTS.finditer("".join(map(_class, text))):
        part = text[found.start() : found.end()]
        if found.lastgroup == "between":
            out.append(separator)
        else:
            if after_word and found.lastgroup == "word":
                out.append(separator)
            out.append(part.lower())
        after_word = found.lastgroup == "word"
    return "".join(out)


@registry.function("snakecase", "string")
def _snakecase(counted: budget.Budget, text: str) -> str:
    counted.make(2 * len(text))
    return _separated(text, "_")


@registry.function("kebabcase", "string")
def _kebabcase(counted: budget.Budget, text: str) -> str:
    counted.make(2 * len(text))
    return _separated(text, "-")


@registry.function("camelcase", "string")
def _camelcase(counted: budget.Budget, text: str) -> str:
    """Join words, each with a capital; what is around all of them stays."""
    counted.make(2 * len(text))
    classes = "".join(map(_class, text))
    begin, end = len(classes) - len(classes.lstrip("-c")), len(classes.rstrip("-c"))
    if begin == len(text):
        return text + text[-1:]
    out = [text[:begin]]
    for found in _SEGMENT.finditer(classes, begin, end):
        word, between = text[slice(*found.span(1))], text[slice(*found.span(2))]
        rest = word[1:]
        if word[0].isupper():
            # Of several capitals only the first stays one.
            capitals = next((n for n, c in enumerate(rest) if not c.isupper()), len(rest))
            rest = rest[:capitals].lower() + rest[capitals:]
        # One separator goes with the joint, more of them stay.
        out += [word[0].upper() + rest, between[:-1]]
    return "".join(out) + text[end:]
