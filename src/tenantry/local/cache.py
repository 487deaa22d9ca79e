"""The user's cache of binaries: one folder per component and version, with a manifest.

A file counts only if the manifest knows it and its SHA-256 is the recorded one. A file gets its
name when it is complete, and its line in the manifest after that; so a crash at any point leaves
at worst a file that nobody knows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path

import msgspec

from tenantry.local import artefacts, errors, state

_TEMPORARY = ".part-"
MANIFEST = "manifest.json"


class Entry(msgspec.Struct, frozen=True):
    sha256: str
    size: int
    #: How it came here, for people: "built from source with go1.26.6".
    origin: str = ""


class Cache:
    def __init__(self, home: Path) -> None:
        self.root = home / "control-plane"
        self.lock = self.root / "lock"

    def prepare(self, minimum_free: int) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise errors.StorageError.of(self.root, err) from err
        state.require_room(self.root, minimum_free)

    def path(self, artefact: artefacts.Artefact) -> Path:
        return self.root / artefact.folder / artefact.name

    def flaws(self, wanted: Sequence[artefacts.Artefact]) -> dict[str, str]:
        """Say for each artefact why it cannot be used; "" when it can."""
        with futures.ThreadPoolExecutor(max_workers=4) as pool:
            names = [artefact.name for artefact in wanted]
            return dict(zip(names, pool.map(self.flaw, wanted), strict=True))

    def flaw(self, artefact: artefacts.Artefact) -> str:
        path = self.path(artefact)
        known = self._entries(path.parent).get(artefact.name)
        try:
            if known is None:
                return f"{path} is not complete" if path.exists() else "not there"
            if path.stat().st_size != known.size or digest(path) != known.sha256:
                return f"{path} is corrupt: not the bytes that {path.parent / MANIFEST} recorded"
        except FileNotFoundError:
            return "not there"
        except OSError as err:
            return f"{path} cannot be read: {err.strerror}"
        return ""

    def temporary(self, artefact: artefacts.Artefact) -> Path:
        """Return a fresh path, on the same disk, for a file in the making."""
        folder = self.path(artefact).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise errors.StorageError.of(folder, err) from err
        return folder / f"{_TEMPORARY}{artefact.name}-{os.getpid()}"

    def add(self, artefact: artefacts.Artefact, made: Path, origin: str) -> Path:
        """Take in a complete file."""
        path = self.path(artefact)
        entry = Entry(sha256=digest(made), size=made.stat().st_size, origin=origin)
        made.chmod(0o755)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        entries = self._entries(path.parent)
        # While neither the old nor the new line fits the file, it counts as corrupt: made anew.
        made.rename(path)
        entries[artefact.name] = entry
        state.write(path.parent / MANIFEST, msgspec.json.format(msgspec.json.encode(entries)))
        return path

    def origin(self, artefact: artefacts.Artefact) -> str:
        known = self._entries(self.path(artefact).parent).get(artefact.name)
        return known.origin if known else ""

    def sweep(self) -> None:
        """Remove what killed predecessors left half-made; only with the lock in hand."""
        for left in self.root.glob(f"*/{_TEMPORARY}*"):
            left.unlink(missing_ok=True)

    def _entries(self, folder: Path) -> dict[str, Entry]:
        try:
            return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, Entry])
        except (OSError, msgspec.DecodeError):
            return {}  # nothing is known of any file: all are made anew


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
