from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import errors, state

HOLD = """
import sys, pathlib
from tenantry.local import state
lock = state.Lock(pathlib.Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TENANTRY_STATE_DIR": "/a", "XDG_STATE_HOME": "/b"}, "/a"),
        ({"XDG_STATE_HOME": "/b"}, "/b/tenantry"),
        ({}, str(Path.home() / ".local/state/tenantry")),
    ],
)
def test_state_home(environ: dict[str, str], expected: str) -> None:
    assert str(state.state_home(environ)) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TENANTRY_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tenantry"),
        ({}, str(Path.home() / ".cache/tenantry")),
    ],
)
def test_cache_home(environ: dict[str, str], expected: str) -> None:
    assert str(state.cache_home(environ)) == expected


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "-a", "a" * 64, "ä"])
def test_a_name_that_is_no_label_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(core_errors.InvalidValueError):
        state.layout(name, tmp_path)


class TestPrepare:
    def test_makes_directories_that_only_the_owner_may_read(self, tmp_path: Path) -> None:
        paths = state.layout("one", tmp_path / "deep" / "er")
        state.prepare(paths, minimum_free=0)
        assert all(directory.is_dir() for directory in paths.directories())
        assert paths.root.stat().st_mode & 0o777 == 0o700

    def test_an_almost_full_disk_is_refused_with_figures(self, tmp_path: Path) -> None:
        with pytest.raises(errors.StorageError, match=r"the disk is almost full: \d+ MiB free"):
            state.prepare(state.layout("one", tmp_path), minimum_free=1 << 60)

    def test_a_file_in_the_way_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "one").write_text("")
        with pytest.raises(errors.StorageError, match=r"cannot write .*/one"):
            state.prepare(state.layout("one", tmp_path))


class TestWrite:
    def test_replaces_as_a_whole_and_privately(self, tmp_path: Path) -> None:
        target = tmp_path / "file"
        state.write(target, b"one")
        state.write(target, b"two")
        assert target.read_bytes() == b"two"
        assert target.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [target]

    def test_what_fails_leaves_the_old_content(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = tmp_path / "file"
        state.write(target, b"one")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fchmod", full)
        with pytest.raises(errors.StorageError, match="No space left on device"):
            state.write(target, b"two")
        assert target.read_bytes() == b"one"
        assert list(tmp_path.iterdir()) == [target]

    @pytest.mark.parametrize(("durable", "synced"), [(True, ["file", "directory"]), (False, [])])
    def test_survives_a_power_cut(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        durable: bool,
        synced: list[str],
    ) -> None:
        """The content is on the disk before it gets its name, and then the name is."""
        path = tmp_path / "file"
        seen: list[str] = []

        def fsync(descriptor: int) -> None:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                assert path.exists()
                seen.append("directory")
            else:
                assert found.st_size == 7
                assert not path.exists()
                seen.append("file")

        monkeypatch.setattr(os, "fsync", fsync)
        state.write(path, b"content", durable=durable)
        assert path.read_bytes() == b"content"
        assert seen == synced

    def test_into_nowhere(self, tmp_path: Path) -> None:
        with pytest.raises(errors.StorageError, match="No such file or directory"):
            state.write(tmp_path / "not" / "there", b"")


class TestHandOut:
    def test_follows_links_also_to_what_is_not_there_yet(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("target")
        for text in (b"one", b"two"):
            state.hand_out(tmp_path / "link", text)
            assert (tmp_path / "target").read_bytes() == text
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600

    def test_a_pipe_stays_a_pipe(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            state.hand_out(path, b"content")
            assert os.read(reading, 100) == b"content"
        finally:
            os.close(reading)
        assert stat.S_ISFIFO(path.stat().st_mode)

    def test_what_a_device_says(self) -> None:
        with pytest.raises(errors.StorageError, match="/dev/full: No space left on device"):
            state.hand_out(Path("/dev/full"), b"content")
        assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)

    def test_a_link_that_leads_to_itself(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(errors.StorageError, match="Too many levels of symbolic links"):
            state.hand_out(tmp_path / "loop", b"content")
        assert (tmp_path / "loop").is_symlink()

    def test_a_directory_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(errors.StorageError, match="Is a directory"):
            state.hand_out(tmp_path, b"content")


class TestRead:
    def test_missing_is_none(self, tmp_path: Path) -> None:
        assert state.read(tmp_path / "none") is None

    def test_unreadable_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(errors.BrokenStateError, match="Is a directory"):
            state.read(tmp_path)


class TestLock:
    def test_is_exclusive_and_names_its_holder(self, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        with state.locked(path) as free:
            assert free
            assert state.holder(path) == os.getpid()
            with state.locked(path) as again:
                assert not again
        assert state.holder(path) is None
        with state.locked(path) as free:
            assert free

    def test_nobody_holds_what_does_not_exist(self, tmp_path: Path) -> None:
        assert state.holder(tmp_path / "none") is None

    def test_ends_with_its_holder_however_that_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"True\n"
            assert state.holder(path) == other.pid
            assert not state.Lock(path).acquire()
            other.kill()
        assert state.holder(path) is None
        lock = state.Lock(path)
        assert lock.acquire()
        lock.release()

    def test_looking_does_not_take_it_away(self, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        lock = state.Lock(path)
        assert lock.acquire()
        for _ in range(100):
            assert state.holder(path) == os.getpid()
        lock.release()

    def test_one_that_was_just_taken_is_somebodys(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the lock and the name in it is an instant in which both can be looked at."""
        path = tmp_path / "lock"
        lock = state.Lock(path)
        sign = lock.sign
        monkeypatch.setattr(lock, "sign", lambda: None)
        assert lock.acquire()
        monkeypatch.setattr("tenantry.local.state.time.sleep", lambda _: sign())
        assert state.holder(path) == os.getpid()
        lock.release()
        assert state.holder(path) is None

    def test_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(errors.StorageError):
            state.Lock(tmp_path / "no" / "lock").acquire()

    def test_waiting_for_it_has_an_end(self, tmp_path: Path) -> None:
        path = tmp_path / "lock"
        state.await_release(path, 0.1)
        asked: list[int] = []
        with (
            state.locked(path),
            pytest.raises(errors.HeldError, match=f"end it with: kill {os.getpid()}") as caught,
        ):
            state.await_release(path, 0.1, ask=asked.append)
        assert caught.value.pid == os.getpid()
        assert set(asked) == {os.getpid()}


def test_platforms_are_those_with_a_plan(tmp_path: Path) -> None:
    for name in ("b", "a", "half"):
        (tmp_path / name).mkdir()
    for name in ("b", "a"):
        (tmp_path / name / "plan.json").write_text("{}")
    assert state.platforms(tmp_path) == ["a", "b"]
    assert state.platforms(tmp_path / "none") == []
