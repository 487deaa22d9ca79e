"""Go's layouts of times: the reference time "Mon Jan 2 15:04:05 MST 2006" shows what is wanted."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from tenantry.core.templates import errors, values

_CHUNK = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|002|0[1-6]|15|1|2006|__2|_2(?!006)|2|3|4|5|PM|pm"
    r"|[-Z]07:00:00|[-Z]070000|[-Z]07:00|[-Z]0700|[-Z]07|[.,](?:0+|9+)(?![0-9])"
)
_LONG_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_LONG_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: What a time is printed as, and what stands for it in JSON.
PRINTED = "2006-01-02 15:04:05.999999999 -0700 MST"
RFC3339 = "2006-01-02T15:04:05.999999999Z07:00"
LONGEST = 256
_EARLIEST = -62_135_596_800
_LATEST = 253_402_300_799
_DAY = 86_400


class Time(values.Opaque):
    """A moment with the zone it is shown in; years 1 to 9999."""

    type_name = "time.Time"

    def __init__(self, seconds: int, nanos: int = 0, zone: dt.tzinfo = dt.UTC) -> None:
        # A day of room at both ends for zones.
        low = _EARLIEST if zone is dt.UTC else _EARLIEST + _DAY
        high = _LATEST if zone is dt.UTC else _LATEST - _DAY
        if not low <= seconds <= high:
            raise errors.Failure("time out of range; accepted: years 1 to 9999")
        self.seconds = seconds
        self.nanos = nanos
        self.zone = zone
        self.wall = (_EPOCH + dt.timedelta(seconds=seconds)).astimezone(zone)
        numbers = {
            "Year": self.wall.year,
            "Day": self.wall.day,
            "Hour": self.wall.hour,
            "Minute": self.wall.minute,
            "Second": self.wall.second,
            "Nanosecond": nanos,
            "YearDay": self.wall.timetuple().tm_yday,
        }
        self.attributes: dict[str, Any] = {
            **{name: values.Int(number) for name, number in numbers.items()},
            "Unix": seconds,
            "String": str(self),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int]:
        return self.seconds, self.nanos

    def __str__(self) -> str:
        return written(self, PRINTED)

    def json(self) -> str:
        return written(self, RFC3339)


def zone(name: str) -> dt.tzinfo:
    """Return a zone of the IANA's by name; UTC for one that there is not, as sprig has it."""
    if name in {"", "UTC", "Local"} or len(name) > 64:
        return dt.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return dt.UTC


def written(time: Time, layout: str) -> str:
    """Write a time as a layout shows; raises Failure for a layout that is too long."""
    if len(layout) > LONGEST:
        raise errors.Failure(f"a layout may have at most {LONGEST} characters")
    return _CHUNK.sub(lambda match: _chunk(time, match.group()), layout)


def _chunk(time: Time, chunk: str) -> str:
    wall = time.wall
    simple = _WRITTEN.get(chunk)
    if simple is not None:
        return simple(wall)
    if chunk[0] in ".,":
        digits = f"{time.nanos:09}".ljust(len(chunk) - 1, "0")[: len(chunk) - 1]
        if chunk[1] == "9":
            digits = digits.rstrip("0")
        return chunk[0] + digits if digits else ""
    offset = _offset(wall)
    return "Z" if chunk[0] == "Z" and offset == 0 else _signed(offset, chunk)


def _offset(wall: dt.datetime) -> int:
    return int((wall.utcoffset() or dt.timedelta()).total_seconds())


def _signed(offset: int, chunk: str) -> str:
    hours, rest = divmod(abs(offset), 3600)
    parts = [f"{hours:02}", f"{rest // 60:02}", f"{rest % 60:02}"]
    count = (len(chunk.replace(":", "")) - 1) // 2
    return ("-" if offset < 0 else "+") + (":" if ":" in chunk else "").join(parts[:count])


def _abbreviation(wall: dt.datetime) -> str:
    name = wall.tzname() or ""
    if name and not name.startswith("UTC+") and not name.startswith("UTC-"):
        return name
    offset = _offset(wall)
    return _signed(offset, "-0700" if offset % 3600 else "-07")


_WRITTEN: dict[str, Callable[[dt.datetime], str]] = {
    "January": lambda wall: _LONG_MONTHS[wall.month - 1],
    "Jan": lambda wall: _LONG_MONTHS[wall.month - 1][:3],
    "Monday": lambda wall: _LONG_DAYS[wall.weekday()],
    "Mon": lambda wall: _LONG_DAYS[wall.weekday()][:3],
    "01": lambda wall: f"{wall.month:02}",
    "1": lambda wall: str(wall.month),
    "02": lambda wall: f"{wall.day:02}",
    "_2": lambda wall: f"{wall.day:2}",
    "2": lambda wall: str(wall.day),
    "002": lambda wall: f"{wall.timetuple().tm_yday:03}",
    "__2": lambda wall: f"{wall.timetuple().tm_yday:3}",
    "15": lambda wall: f"{wall.hour:02}",
    "03": lambda wall: f"{wall.hour % 12 or 12:02}",
    "3": lambda wall: str(wall.hour % 12 or 12),
    "04": lambda wall: f"{wall.minute:02}",
    "4": lambda wall: str(wall.minute),
    "05": lambda wall: f"{wall.second:02}",
    "5": lambda wall: str(wall.second),
    "2006": lambda wall: f"{wall.year:04}",
    "06": lambda wall: f"{wall.year % 100:02}",
    "PM": lambda wall: "PM" if wall.hour >= 12 else "AM",
    "pm": lambda wall: "pm" if wall.hour >= 12 else "am",
    "MST": _abbreviation,
}

# ---- reading ------------------------------------------------------------------------------------

_NAMES = "|".join(each[:3] for each in _LONG_MONTHS)
_DAY_NAMES = "|".join(each[:3] for each in _LONG_DAYS)
_FRACTION = r"(?:[.,][0-9]+)?"
_PARTS = {
    "January": ("month_name", "(?i:" + "|".join(_LONG_MONTHS) + ")"),
    "Jan": ("month_name", f"(?i:{_NAMES})"),
    "Monday": ("", "(?i:" + "|".join(_LONG_DAYS) + ")"),
    "Mon": ("", f"(?i:{_DAY_NAMES})"),
    "01": ("month", "[0-9]{2}"),
    "1": ("month", "[0-9]{1,2}"),
    "02": ("day", "[0-9]{2}"),
    "_2": ("day", " ?[0-9]{1,2}"),
    "2": ("day", "[0-9]{1,2}"),
    "15": ("hour", "[0-9]{1,2}"),
    "03": ("half", "[0-9]{2}"),
    "3": ("half", "[0-9]{1,2}"),
    "04": ("minute", "[0-9]{2}"),
    "4": ("minute", "[0-9]{1,2}"),
    "05": ("second", "[0-9]{2}"),
    "5": ("second", "[0-9]{1,2}"),
    "2006": ("year", "[0-9]{4}"),
    "06": ("short_year", "[0-9]{2}"),
    "PM": ("noon", "AM|PM"),
    "pm": ("noon", "am|pm"),
    "MST": ("name", "(?:[A-Z]{3,4}T|WITA|[A-Z]{3})(?![A-Z])"),
}


@functools.lru_cache(maxsize=256)
def _pattern(layout: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    out, names, position = "", [], 0
    chunks = list(_CHUNK.finditer(layout))
    for index, match in enumerate(chunks):
        chunk = match.group()
        out += _plain(layout[position : match.start()])
        position = match.end()
        name, part = _part(chunk)
        names.append(name)
        # Atomic, as Go reads: without it, layouts of many numbers would take for ever to refuse.
        out += f"((?>{part}))"
        if name == "second":
            following = chunks[index + 1].group() if index + 1 < len(chunks) else ""
            directly = index + 1 < len(chunks) and chunks[index + 1].start() == position
            # A fraction may follow seconds even where the layout shows none.
            if not (directly and following[0] in ".,"):
                names.append("fraction")
                out += f"((?>{_FRACTION}))"
    return re.compile(out + _plain(layout[position:]), re.ASCII), tuple(names)


def _plain(text: str) -> str:
    """Match text as it is, and any number of spaces for each run of them."""
    return re.sub(r"(?:\\ )+", "(?> +)", re.escape(text))


def _part(chunk: str) -> tuple[str, str]:
    if chunk in _PARTS:
        return _PARTS[chunk]
    if chunk[0] in ".,":
        digits = f"[.,][0-9]{{{len(chunk) - 1}}}" if chunk[1] == "0" else _FRACTION
        return "fraction", digits
    if chunk in {"002", "__2"}:
        raise errors.Failure("a time cannot be read by its day of the year; accepted: 01-02")
    count = (len(chunk.replace(":", "")) - 1) // 2
    offset = "[-+]" + (":" if ":" in chunk else "").join(["[0-9]{2}"] * count)
    return "offset", offset + ("|Z" if chunk[0] == "Z" else "")


def read(text: str, layout: str) -> Time:
    """Read a time as a layout shows it, UTC where it names no zone; raises Failure."""
    if len(layout) > LONGEST or len(text) > LONGEST:
        raise errors.Failure(f"a layout and a time may have at most {LONGEST} characters")
    pattern, names = _pattern(layout)
    match = pattern.fullmatch(text)
    if match is None:
        raise errors.Failure(f"{text!r} is not a time as {layout!r} shows it")
    found = dict(zip(names, match.groups(), strict=True))
    try:
        return _moment(found)
    except (ValueError, OverflowError) as problem:
        raise errors.Failure(f"{text!r} is no time: {problem}") from None


def _moment(found: dict[str, str]) -> Time:
    month = int(found.get("month", 1))
    if "month_name" in found:
        starts = [each[:3].lower() for each in _LONG_MONTHS]
        month = starts.index(found["month_name"][:3].lower()) + 1
    year = int(found.get("year", 0))
    if "short_year" in found:
        year = int(found["short_year"])
        year += 1900 if year >= 69 else 2000
    hour = int(found.get("hour", 0))
    if "half" in found:
        hour = int(found["half"])
        if hour > 12:
            raise ValueError("hour out of range")
    noon = found.get("noon", "").upper()
    if noon == "PM" and hour < 12:
        hour += 12
    elif noon == "AM" and hour == 12:
        hour = 0
    wall = dt.datetime(
        year or 1, month, int(found.get("day", 1)), hour, int(found.get("minute", 0)),
        int(found.get("second", 0)), tzinfo=dt.UTC,
    )  # fmt: skip
    if year == 0:
        raise ValueError("a time needs a year")
    nanos = int((found.get("fraction") or "")[1:10].ljust(9, "0"))
    offset, given = _zone(found)
    return Time(int((wall - _EPOCH).total_seconds()) - offset, nanos, given)


def _zone(found: dict[str, str]) -> tuple[int, dt.tzinfo]:
    text = found.get("offset", "")
    if text and text != "Z":
        digits = text[1:].replace(":", "").ljust(6, "0")
        hours, minutes, seconds = (int(digits[at : at + 2]) for at in (0, 2, 4))
        if hours > 23 or minutes > 59 or seconds > 59:
            raise ValueError("zone out of range")
        offset = (hours * 3600 + minutes * 60 + seconds) * (-1 if text[0] == "-" else 1)
        return offset, dt.timezone(dt.timedelta(seconds=offset)) if offset else dt.UTC
    name = found.get("name", "UTC")
    # An abbreviation says nothing of an offset.
    return 0, dt.UTC if name == "UTC" else dt.timezone(dt.timedelta(), name)
