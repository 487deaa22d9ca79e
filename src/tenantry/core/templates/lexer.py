"""A template's text into tokens: text between actions, and the words inside them.

The grammar is that of Go's text/template documentation: actions, trim markers, comments, and Go's
own syntax of constants.
"""

from __future__ import annotations

import dataclasses
import re

#: Longest accepted source; a ConfigMap's worth of text is far below it.
LONGEST = 64 << 10
KEYWORDS = frozenset(
    "block break continue define else end if range nil template with".split()  # noqa: SIM905
)

_SPACE = " \t\r\n"
_NUMBER = re.compile(
    r"""[+-]?(?:
        0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?
      | 0[bB][01_]+ | 0[oO][0-7_]+
      | (?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?
    )i?""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_CHARACTER = re.compile(r"'(?:[^'\\\n]|\\[^\n])+'")
_COMMENT_END = re.compile(r"\*/(?:[ \t\r\n]-)?\}\}")
#: What may follow a field, a variable or a word.
_TERMINATORS = frozenset(" \t\r\n.,|:()=")


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """One piece of the source; `kind` is the punctuation itself for punctuation."""

    kind: str
    text: str
    at: int


class Refusal(Exception):
    """Raised while reading; carries the offset, which the engine turns into line and column."""

    def __init__(self, at: int, reason: str) -> None:
        self.at = at
        self.reason = reason
        super().__init__(reason)


def tokens(source: str) -> list[Token]:
    """Split a whole template; raises Refusal."""
    found: list[Token] = []
    position, trim = 0, False
    while True:
        start = source.find("{{", position)
        text = source[position:] if start < 0 else source[position:start]
        at = position
        if trim:
            shorter = text.lstrip(_SPACE)
            at += len(text) - len(shorter)
            text = shorter
        if start < 0:
            if text:
                found.append(Token("text", text, at))
            found.append(Token("eof", "", len(source)))
            return found
        inside = start + 2
        if source[inside : inside + 1] == "-" and source[inside + 1 : inside + 2] in tuple(_SPACE):
            text = text.rstrip(_SPACE)
            inside += 1
        if text:
            found.append(Token("text", text, at))
        comment = inside
        if source[inside : inside + 1] in tuple(_SPACE) and inside > start + 2:
            comment = inside + 1
        if source.startswith("/*", comment):
            position, trim = _comment(source, start, comment)
        else:
            position, trim = _action(source, start, inside, found)


def _comment(source: str, start: int, at: int) -> tuple[int, bool]:
    close = source.find("*/", at)
    if close < 0:
        raise Refusal(start, "unclosed comment: */ is missing")
    match = _COMMENT_END.match(source, close)
    if match is None:
        raise Refusal(close, "a comment must end right before the closing }}")
    return match.end(), match.end() - close > 4


def _action(source: str, start: int, position: int, found: list[Token]) -> tuple[int, bool]:
    found.append(Token("{{", "{{", start))
    parens = 0
    while True:
        space = position
        while source[position : position + 1] and source[position] in _SPACE:
            position += 1
        trim = position > space and source.startswith("-}}", position)
        if trim or source.startswith("}}", position):
            if parens:
                raise Refusal(position, "unclosed parenthesis: ) is missing")
            found.append(Token("}}", "}}", position))
            return position + (3 if trim else 2), trim
        if position > space:
            found.append(Token("space", " ", space))
        if position >= len(source):
            raise Refusal(start, "unclosed action: }} is missing")
        token = _token(source, position)
        parens += (token.kind == "(") - (token.kind == ")")
        if parens < 0:
            raise Refusal(position, "unexpected )")
        found.append(token)
        position += len(token.text)


def _token(source: str, at: int) -> Token:
    char = source[at]
    if char == '"':
        return _matched(_STRING, "string", source, at, "unterminated quoted string")
    if char == "'":
        return _matched(_CHARACTER, "char", source, at, "unterminated character constant")
    if char == "`":
        end = source.find("`", at + 1)
        if end < 0:
            raise Refusal(at, "unterminated raw quoted string: ` is missing")
        return Token("raw", source[at : end + 1], at)
    if source.startswith(":=", at):
        return Token(":=", ":=", at)
    if char in "=|,()":
        return Token(char, char, at)
    following = source[at + 1 : at + 2]
    if char == "." and not ("0" <= following <= "9"):
        return _dotted("field", source, at) if _is_word(following) else Token(".", ".", at)
    if char == "$":
        return _dotted("variable", source, at)
    if "0" <= char <= "9" or char in "+-.":
        return _number(source, at)
    if _is_word(char):
        token = _dotted("word", source, at)
        if token.text in KEYWORDS or token.text in {"true", "false"}:
            return Token(token.text, token.text, at)
        return token
    raise Refusal(at, f"unexpected {char!r} in action")


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _matched(form: re.Pattern[str], kind: str, source: str, at: int, reason: str) -> Token:
    match = form.match(source, at)
    if match is None:
        raise Refusal(at, reason)
    return Token(kind, match.group(), at)


def _dotted(kind: str, source: str, at: int) -> Token:
    """Read a word, with the dot or dollar sign that it begins with."""
    match = _WORD.match(source, at + (kind != "word"))
    end = match.end() if match else at + 1
    following = source[end : end + 1]
    if following and following not in _TERMINATORS and not source.startswith("}}", end):
        raise Refusal(end, f"unexpected {following!r} after {source[at:end]!r}")
    return Token(kind, source[at:end], at)


def _number(source: str, at: int) -> Token:
    match = _NUMBER.match(source, at)
    if match is None:
        raise Refusal(at, f"unexpected {source[at]!r} in action")
    end = match.end()
    if _is_word(source[end : end + 1] or " "):
        raise Refusal(at, f"not a number: {source[at : end + 1]!r}")
    if match.group().endswith("i"):
        raise Refusal(at, f"complex numbers are not supported: {match.group()!r}")
    return Token("number", match.group(), at)
