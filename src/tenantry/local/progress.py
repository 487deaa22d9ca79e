"""Telling a person what is going on: one line per step, with how long it took."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from tenantry.core import clock

#: Seconds after which a step that goes on is mentioned, where lines cannot be overwritten.
PATIENCE = 3.0
#: Seconds between two lines about a step that goes on, where lines cannot be overwritten.
QUIET = 15.0


class Step:
    """A step in progress.

    `detail` says what is being done, and beside the result what was done; `count`, how far that
    has come.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = clock.monotonic()
        self.detail = ""
        self.count = ""

    @property
    def seconds(self) -> float:
        return clock.monotonic() - self.started


class Progress:
    """Shows steps on a stream; on a terminal the running step counts its seconds."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        step = Step(name)
        ended = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, ended), daemon=True)
        ticker.start()
        try:
            yield step
        finally:
            ended.set()
            ticker.join()
            self._clear()
        self.done(step.name, step.seconds, step.detail)

    def done(self, name: str, seconds: float, detail: str = "") -> None:
        self._write(f"  {name:<26} {seconds:>6.1f} s{f'   {detail}' if detail else ''}\n")

    def note(self, text: str) -> None:
        self._write(f"  {text}\n")

    def _tick(self, step: Step, ended: threading.Event) -> None:
        shown, due = "", PATIENCE
        while not ended.wait(0.2):
            count = f", {step.count}" if step.count else ""
            line = f"  {step.name:<26} {step.seconds:>6.0f} s   {step.detail or '...'}{count}"
            if self.live:
                self._write(f"\r\x1b[K{line[:118]}")
            elif step.seconds > due or (step.detail != shown and step.seconds > PATIENCE):
                shown, due = step.detail, step.seconds + QUIET
                self._write(f"{line}\n")

    def _clear(self) -> None:
        if self.live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        # Nobody to tell is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()


class Silent(Progress):
    """Says nothing."""

    def _write(self, text: str) -> None:
        pass
