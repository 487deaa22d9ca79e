from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import logs, state


@pytest.fixture
def paths(tmp_path: Path) -> state.Layout:
    made = state.layout("one", tmp_path)
    made.logs.mkdir(parents=True)
    made.log("etcd").write_text("1\n2\n3\n")
    made.log("audit").write_text("")
    return made


def test_names(paths: state.Layout) -> None:
    assert logs.names(paths) == ["audit", "etcd"]


def test_the_last_lines(paths: state.Layout) -> None:
    assert list(logs.read(paths, "etcd", lines=2)) == ["2\n3\n"]
    assert list(logs.read(paths, "audit", lines=2)) == []


@pytest.mark.parametrize("name", ["nope", "", "../plan"])
def test_an_unknown_one(paths: state.Layout, name: str) -> None:
    with pytest.raises(core_errors.InvalidValueError, match="one of audit, etcd"):
        list(logs.read(paths, name, lines=2))


def test_following(paths: state.Layout) -> None:
    log = paths.log("etcd")

    def append() -> None:
        with log.open("a") as file:
            file.write("4\n")

    turns: list[Callable[[], object]] = [
        lambda: None,
        append,
        lambda: log.write_text("new\n"),
        log.unlink,
        lambda: log.write_text("again\n"),
    ]

    def wait(_: float) -> None:
        turns.pop(0)()

    reading = logs.read(paths, "etcd", lines=1, follow=True, wait=wait)
    assert [next(reading) for _ in range(4)] == ["3\n", "4\n", "new\n", "again\n"]
