"""One value by one verb: what Go's fmt makes of flags, width, precision and type."""

from __future__ import annotations

import dataclasses
from typing import Any

from tenantry.core.templates import budget, errors, floats, values

_BASES = {"b": 2, "o": 8, "O": 8, "d": 10, "v": 10, "x": 16, "X": 16}
#: Widest width and precision that Go reads.
WIDEST = 10**6


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The flags and numbers of one directive; -1 where one is not written."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int = -1
    precision: int = -1


PLAIN = Options()


class Printer:
    """Collects one formatted text."""

    def __init__(self, counted: budget.Budget) -> None:
        self._budget = counted
        self._parts: list[str] = []

    def text(self) -> str:
        return "".join(self._parts)

    def add(self, text: str) -> None:
        self._budget.make(len(text))
        self._parts.append(text)

    def _pad(self, text: str, options: Options, fill: str = "") -> None:
        missing = options.width - len(text)
        if missing <= 0:
            self.add(text)
            return
        # Paid for before it is made: the width comes from the template.
        self._budget.make(missing)
        if options.minus:
            self.add(text + " " * missing)
        else:
            self.add((fill or " ") * missing + text)

    def top(self, value: Any, letter: str, options: Options) -> None:
        """Print one argument."""
        if value is values.MISSING:
            value = None
        if letter == "v" and options.plus:
            # It asks for the names of fields, which JSON's values have not got.
            options = dataclasses.replace(options, plus=False)
        if letter == "T":
            self._pad(_truncated(values.type_name(value), options), options)
        elif letter == "p":
            raise errors.Failure("%p prints where a value lies in memory, which is not supported")
        elif value is None:
            if letter == "v":
                self._pad("<nil>", options)
            else:
                self.add(f"%!{letter}(<nil>)")
        else:
            self._value(value, letter, options)

    def _value(self, value: Any, letter: str, options: Options) -> None:
        self._budget.step()
        match value:
            case None:
                # Inside a list or a map.
                go_syntax = letter == "v" and options.sharp
                self.add("interface {}(nil)" if go_syntax else "<nil>")
            case bool():
                if letter in "tv":
                    zero = "0" if options.zero else ""
                    self._pad("true" if value else "false", options, zero)
                else:
                    self._bad(value, letter, options)
            case str():
                self._string(value, letter, options)
            case int():
                self._integer(value, letter, options)
            case float():
                self._float(value, letter, options)
            case list():
                self._list(value, letter, options)
            case dict():
                self._map(value, letter, options)
            case values.Opaque() if letter in "vsqxX":
                self._string(str(value), letter, options)
            case _:
                self._bad(value, letter, options)

    def _bad(self, value: Any, letter: str, options: Options) -> None:
        self.add(f"%!{letter}({values.type_name(value)}=")
        if letter == "v":
            raise errors.Failure(f"cannot print a value of type {values.type_name(value)}")
        self._value(value, "v", options)
        self.add(")")

    def _list(self, value: list[Any], letter: str, options: Options) -> None:
        go_syntax = letter == "v" and options.sharp
        self.add(f"{values.type_name(value)}{{" if go_syntax else "[")
        self._budget.enter()
        for index, item in enumerate(value):
            if index:
                self.add(", " if go_syntax else " ")
            self._value(item, letter, options)
        self._budget.leave()
        self.add("}" if go_syntax else "]")

    def _map(self, value: dict[str, Any], letter: str, options: Options) -> None:
        go_syntax = letter == "v" and options.sharp
        self.add(f"{values.type_name(value)}{{" if go_syntax else "map[")
        self._budget.enter()
        self._budget.make(len(value))
        for index, key in enumerate(sorted(value)):
            if index:
                self.add(", " if go_syntax else " ")
            self._value(key, letter, options)
            self.add(":")
            self._value(value[key], letter, options)
        self._budget.leave()
        self.add("}" if go_syntax else "]")

    def _string(self, value: str, letter: str, options: Options) -> None:
        self._budget.read(len(value))
        zero = "0" if options.zero else ""
        if letter == "v" and options.sharp:
            self._pad(floats.quote(value), options)
        elif letter in "vs":
            self._pad(_truncated(value, options), options, zero)
        elif letter == "q":
            value = _truncated(value, options)
            if (
                options.sharp
                and "`" not in value
                and all(c.isprintable() or c == "\t" for c in value)
            ):
                self._pad(f"`{value}`", options, zero)
            else:
                self._pad(floats.quote(value, ascii_only=options.plus), options, zero)
        elif letter in "xX":
            self._hexadecimal(values.utf8(value), letter, options)
        else:
            self._bad(value, letter, options)

    def _hexadecimal(self, data: bytes, letter: str, options: Options) -> None:
        if options.precision >= 0:
            data = data[: options.precision]
        prefix = "0x" if options.sharp else ""
        digits = data.hex(" ") if options.space else data.hex()
        if options.space:
            digits = digits.replace(" ", f" {prefix}")
        text = prefix + digits if data else ""
        zero = "0" if options.zero else ""
        self._pad(text.upper() if letter == "X" else text, options, zero)

    def _integer(self, value: int, letter: str, options: Options) -> None:
        if letter in _BASES:
            self._based(value, letter, options)
        elif letter in "cqU":
            # Go takes what is no character for U+FFFD.
            code = value if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else 0xFFFD
            zero = "0" if options.zero else ""
            if letter == "c":
                self._pad(chr(code), options, zero)
            elif letter == "q":
                quoted = floats.quote(chr(code), mark="'", ascii_only=options.plus)
                self._pad(quoted, options, zero)
            else:
                number = value & 0xFFFFFFFFFFFFFFFF
                digits = f"{number:X}".zfill(min(max(options.precision, 4), WIDEST))
                name = f"U+{digits}"
                if options.sharp and number <= 0x10FFFF and chr(code).isprintable():
                    name += f" '{chr(code)}'"
                self._pad(name, options)
        else:
            self._bad(value, letter, options)

    def _based(self, value: int, letter: str, options: Options) -> None:
        magnitude, base = abs(int(value)), _BASES[letter]
        digits = {
            2: lambda: f"{magnitude:b}", 8: lambda: f"{magnitude:o}",
            10: lambda: str(magnitude), 16: lambda: f"{magnitude:x}",
        }[base]()  # fmt: skip
        sign = "-" if value < 0 else "+" if options.plus else " " if options.space else ""
        go_syntax = letter == "v" and options.sharp
        if options.precision == 0 and value == 0:
            self._pad("", options)
            return
        least = options.precision
        if least < 0 and options.zero and options.width >= 0:
            least = options.width - len(sign)
        if least > len(digits):
            self._budget.make(least)
            digits = digits.zfill(least)
        prefix = ""
        if letter == "O":
            prefix = "0o"
        elif options.sharp and not go_syntax:
            prefix = {2: "0b", 8: "" if digits.startswith("0") else "0", 10: "", 16: "0x"}[base]
        elif go_syntax and isinstance(value, (values.Uint8, values.Uint64)):
            prefix, digits = "0x", f"{magnitude:x}"
        text = prefix + digits
        self._pad(sign + (text.upper() if letter == "X" else text), options)

    def _float(self, value: float, letter: str, options: Options) -> None:
        if letter in "xXb":
            raise errors.Failure(f"%{letter} of a float is not supported")
        if letter not in "veEfFgG":
            self._bad(value, letter, options)
            return
        if options.sharp and letter != "v":
            raise errors.Failure(f"%#{letter} of a float is not supported")
        form = {"v": "g", "F": "f"}.get(letter, letter)
        precision = options.precision
        if precision < 0 and form in "eEf":
            precision = 6
        self._budget.make(max(precision, 0) + 320)
        finite = value == value and abs(value) != float("inf")  # noqa: PLR0124 - not a number
        if not finite:
            text = floats.special(value)
        elif precision >= 0:
            text = format(value, f".{precision}{form}")
        else:
            text = floats.general(value)
            text = text.upper() if form == "G" else text
        sign = ""
        if text[0] in "+-":
            sign, text = text[0], text[1:]
        if sign == "-" or options.plus or (value == float("inf") and options.plus):
            sign = sign or "+"
        elif options.space:
            sign = " "
        elif sign == "+" and finite:
            sign = ""
        if options.zero and finite and options.width > len(text) + len(sign):
            self._budget.make(options.width)
            text = text.zfill(options.width - len(sign))
        self._pad(sign + text, options)


def _truncated(text: str, options: Options) -> str:
    return text[: options.precision] if options.precision >= 0 else text
