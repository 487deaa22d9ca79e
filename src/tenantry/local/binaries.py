"""Where the binaries come from: the user's own, the cache, a release, or source; in this order."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tenantry.core import clock
from tenantry.local import artefacts, build, cache, download, errors, progress, state

#: A directory with binaries of one's own, used as they are.
BIN_DIR = "TENANTRY_BIN_DIR"
SUMS = "SHA256SUMS"
#: Seconds to wait for another process that makes binaries: a build on a small machine takes 1,500.
WAIT = 3600.0
#: Bytes of all binaries together, and as much again while one is made.
ROOM = 2**30


class Source(Protocol):
    """Puts an artefact at `target` and tells its origin, or raises download.Refused."""

    def __call__(
        self, artefact: artefacts.Artefact, target: Path, step: progress.Step, /
    ) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The two sources that make files; apart, so that tests can do without network and compiler."""

    download: Source
    build: Source


def sources(environ: Mapping[str, str]) -> Sources:
    return Sources(
        download=download.Downloads(environ=environ).fetch,
        build=build.Builds(environ=environ, home=state.cache_home(environ)).make,
    )


def resolve(
    wanted: Sequence[str],
    *,
    environ: Mapping[str, str],
    report: progress.Progress,
    made_by: Sources | None = None,
    make: bool = True,
) -> dict[str, str]:
    """Return the path of every wanted artefact, getting it where it is not there yet.

    :param make: False = only what is there already
    """
    asked = [artefacts.ALL[name] for name in wanted]
    given = environ.get(BIN_DIR)
    kept = cache.Cache(state.cache_home(environ))
    with report.step("binaries") as step:
        found = _given(Path(given), asked) if given else {}
        rest = [artefact for artefact in asked if artefact.name not in found]
        flaws = kept.flaws(rest)
        lacking = [name for name, flaw in flaws.items() if flaw]
        step.detail = f"from {given}" if not rest else f"from {kept.root}"
        if lacking:
            step.detail = f"to be made: {', '.join(lacking)}"
    if lacking:
        reasons = [(f"{BIN_DIR}={given}", "not there") if given else (BIN_DIR, "not set")]
        if not make:
            raise errors.NoBinariesError(
                lacking, [*reasons, (f"cache {kept.root}", _summary(flaws))]
            )
        _make_missing(
            kept, rest, reasons=reasons, report=report, made_by=made_by or sources(environ)
        )
    return found | {artefact.name: str(kept.path(artefact)) for artefact in rest}


def _given(folder: Path, wanted: Sequence[artefacts.Artefact]) -> dict[str, str]:
    """Take what a user's own directory has; refuse what it has and what cannot be right."""
    sums = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / SUMS).read_text().splitlines():
            digest, _, name = line.partition(" ")
            sums[name.strip(" *")] = digest
    found = {}
    for artefact in wanted:
        path = folder / artefact.name
        if not path.exists():
            continue
        try:
            flaw = artefacts.flaw(artefact, path)
            if not flaw and artefact.package and not os.access(path, os.X_OK):
                flaw = f"is not executable: chmod +x {shlex.quote(str(path))}"
            if not flaw and sums.get(artefact.name, "") not in {"", cache.digest(path)}:
                flaw = f"is not the file that {folder / SUMS} lists"
        except OSError as err:
            flaw = f"cannot be read: {err.strerror}"
        if flaw:
            raise errors.LocalError(f"{path} {flaw}; put a good one there, or unset {BIN_DIR}")
        found[artefact.name] = str(path.absolute())
    return found


def _make_missing(
    kept: cache.Cache,
    wanted: Sequence[artefacts.Artefact],
    *,
    reasons: Sequence[tuple[str, str]],
    report: progress.Progress,
    made_by: Sources,
) -> None:
    kept.prepare(ROOM)
    lock = state.Lock(kept.lock)
    if not lock.acquire():
        with report.step("waiting") as step:
            deadline = clock.monotonic() + WAIT
            while not lock.acquire():
                holder = state.holder(kept.lock)
                if clock.monotonic() > deadline:
                    raise errors.HeldError(kept.lock, holder, WAIT)
                step.detail = f"for process {holder}, which makes the binaries"
                time.sleep(0.5)
    try:
        kept.sweep()
        flaws = kept.flaws(wanted)  # again: whoever had the lock has made them, perhaps
        for artefact in wanted:
            if not flaws[artefact.name]:
                continue
            with report.step(artefact.name) as step:
                why = _make(kept, artefact, step=step, made_by=made_by)
                if why:
                    # Without this one nothing starts; the others can wait for the next attempt.
                    cached = (f"cache {kept.root}", _summary(flaws))
                    raise errors.NoBinariesError([artefact.name], [*reasons, cached, *why.items()])
    finally:
        lock.release()


def _make(
    kept: cache.Cache, artefact: artefacts.Artefact, *, step: progress.Step, made_by: Sources
) -> dict[str, str]:
    """Make one artefact by the first source that can; return why none could, else nothing."""
    why = {}
    for name, source in (("download", made_by.download), ("build", made_by.build)):
        target = kept.temporary(artefact)
        try:
            origin = source(artefact, target, step)
            if flaw := artefacts.flaw(artefact, target):
                raise download.Refused(f"what it gave {flaw}")
            kept.add(artefact, target, origin)
            step.detail, step.count = origin, ""
            return {}
        except download.Refused as err:
            why[name] = str(err)
        except OSError as err:
            raise errors.StorageError.of(target, err) from err
        finally:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
    return why


def _summary(flaws: Mapping[str, str]) -> str:
    bad = {name: flaw for name, flaw in flaws.items() if flaw}
    if set(bad.values()) == {"not there"}:
        return f"has no {', '.join(bad)}"
    return "; ".join(f"{name}: {flaw}" for name, flaw in bad.items())
