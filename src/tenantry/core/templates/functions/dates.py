"""Times and durations, of what the data says: there is no clock, as a rule must not change by itself."""

from __future__ import annotations

import re
from typing import Any

from tenantry.core import durations
from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import layouts, registry

_ONE = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"[-+]?(?:0|(?:{_ONE})+)")
_LARGEST = 1 << 63
_ROUNDED = (
    (365 * 24 * 3600, "y"), (30 * 24 * 3600, "mo"), (24 * 3600, "d"), (3600, "h"), (60, "m"),
    (1, "s"),
)  # fmt: skip


#: Steps for each character of a layout that is made ready for reading.
_PREPARED = 20


def _time(value: Any) -> layouts.Time:
    if isinstance(value, layouts.Time):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return layouts.Time(int(value))
    raise errors.Failure(
        f"expected a time or seconds since 1970, found {values.type_name(value)}; "
        "toDate reads a time from text"
    )


def _written(counted: budget.Budget, layout: str, value: Any, zone: str) -> str:
    moment = _time(value)
    # A single digit of a layout takes as long as a whole action.
    counted.step(len(layout))
    counted.make(10 * len(layout))
    return layouts.written(layouts.Time(moment.seconds, moment.nanos, layouts.zone(zone)), layout)


@registry.function("date", "string any")
def _date(counted: budget.Budget, layout: str, value: Any) -> str:
    return _written(counted, layout, value, "UTC")


@registry.function("dateInZone date_in_zone", "string any string")
def _date_in_zone(counted: budget.Budget, layout: str, value: Any, zone: str) -> str:
    return _written(counted, layout, value, zone)


@registry.function("htmlDate", "any")
def _html_date(counted: budget.Budget, value: Any) -> str:
    return _written(counted, "2006-01-02", value, "UTC")


@registry.function("htmlDateInZone", "any string")
def _html_date_in_zone(counted: budget.Budget, value: Any, zone: str) -> str:
    return _written(counted, "2006-01-02", value, zone)


@registry.function("toDate", "string string")
def _to_date(counted: budget.Budget, layout: str, text: str) -> layouts.Time:
    counted.step(_PREPARED * len(layout) + len(text))
    try:
        return layouts.read(text, layout)
    except errors.Exhausted:
        raise
    except errors.Failure:
        return layouts.Time(-62_135_596_800)


@registry.function("mustToDate", "string string")
def _must_to_date(counted: budget.Budget, layout: str, text: str) -> layouts.Time:
    counted.step(_PREPARED * len(layout) + len(text))
    return layouts.read(text, layout)


@registry.function("unixEpoch", "any")
def _unix_epoch(_: budget.Budget, value: Any) -> str:
    return str(_time(value).seconds)


def _nanos(text: str) -> int:
    """Read a duration as Go writes it; raises Failure."""
    if len(text) > 64 or _DURATION.fullmatch(text) is None:
        raise errors.Failure(f"{text[:80]!r} is not a duration; accepted: 1h30m, -2.5s, 300ms")
    total = durations.nanoseconds(text)
    if abs(total) >= _LARGEST:
        raise errors.Failure(f"duration out of range: {text}; accepted: up to 292 years")
    return total


def _moved(text: str, value: Any) -> layouts.Time:
    moment = _time(value)
    total = moment.seconds * 10**9 + moment.nanos + _nanos(text)
    return layouts.Time(total // 10**9, total % 10**9, moment.zone)


@registry.function("dateModify date_modify", "string any")
def _date_modify(_: budget.Budget, text: str, value: Any) -> layouts.Time:
    """Move a time; by nothing when it is no duration, as sprig has it."""
    try:
        _nanos(text)
    except errors.Failure:
        return _time(value)
    return _moved(text, value)


@registry.function("mustDateModify must_date_modify", "string any")
def _must_date_modify(_: budget.Budget, text: str, value: Any) -> layouts.Time:
    return _moved(text, value)


@registry.function("duration", "any")
def _duration(_: budget.Budget, value: Any) -> str:
    """Write seconds as Go writes a duration: 95 is 1m35s; what is neither int64 nor text is 0s."""
    seconds = 0
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,19}", value, re.ASCII):
        seconds = int(value)
    elif values.type_name(value) == "int64":
        seconds = value
    if abs(seconds) * 10**9 >= _LARGEST:
        raise errors.Failure("duration out of range; accepted: up to 292 years")
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = (
        f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
    )
    return f"-{text}" if seconds < 0 else text


@registry.function("durationRound", "any")
def _duration_round(_: budget.Budget, value: Any) -> str:
    """Write the largest unit of a duration: 2h10m is 2h; numbers are nanoseconds."""
    nanos = 0
    if isinstance(value, str):
        try:
            nanos = _nanos(value)
        except errors.Failure:
            nanos = 0
    elif values.type_name(value) == "int64":
        nanos = value
    sign = "-" if nanos < 0 else ""
    for seconds, unit in _ROUNDED:
        if abs(nanos) > seconds * 10**9:
            return f"{sign}{abs(nanos) // (seconds * 10**9)}{unit}"
    return "0s"
