"""Reading the logs of a platform's units."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tenantry.core import errors as core_errors
from tenantry.local import children, state

_POLL = 0.2


def names(paths: state.Layout) -> list[str]:
    """Return whose logs there are."""
    return sorted(log.name.removesuffix(".log") for log in paths.logs.glob("*.log"))


def read(
    paths: state.Layout,
    name: str,
    *,
    lines: int,
    follow: bool = False,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield the last lines of a log, and with `follow` for ever what is added."""
    if name not in names(paths):
        raise core_errors.InvalidValueError("component", name, f"one of {', '.join(names(paths))}")
    log = paths.log(name)
    position = log.stat().st_size
    if text := children.tail(log, lines):
        yield text + "\n"
    while follow:
        wait(_POLL)
        try:
            size = log.stat().st_size
            if size < position:  # begun anew
                position = 0
            if size > position:
                with log.open("rb") as file:
                    file.seek(position)
                    added = file.read(size - position)
                position += len(added)
                yield added.decode(errors="replace")
        except FileNotFoundError:
            position = 0
