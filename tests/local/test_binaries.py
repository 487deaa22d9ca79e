from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.local import programs

from tenantry.local import artefacts, binaries, cache, download, errors, plan, progress, state

WANTED = [plan.ETCD, plan.KUBECTL]


class Maker:
    """A source whose results a test decides."""

    def __init__(self, **results: bytes | str) -> None:
        self.results = {name.replace("_", "-"): result for name, result in results.items()}
        self.asked: list[str] = []

    def __call__(self, artefact: artefacts.Artefact, target: Path, step: progress.Step) -> str:
        self.asked.append(artefact.name)
        step.detail = f"making {artefact.name}"
        result = self.results.get(artefact.name, "has none")
        if isinstance(result, str):
            raise download.Refused(result)
        target.write_bytes(result)
        return "made"


def resolve(
    tmp_path: Path,
    *,
    downloads: Maker | None = None,
    builds: Maker | None = None,
    environ: Mapping[str, str] | None = None,
    wanted: list[str] = WANTED,
) -> dict[str, str]:
    return binaries.resolve(
        wanted,
        environ={"TENANTRY_CACHE_DIR": str(tmp_path / "cache"), **(environ or {})},
        report=progress.Silent(),
        made_by=binaries.Sources(download=downloads or Maker(), build=builds or Maker()),
    )


def given(tmp_path: Path, **files: bytes) -> dict[str, str]:
    folder = tmp_path / "given"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("_", "-")
        path.write_bytes(content)
        path.chmod(0o755)
    return {binaries.BIN_DIR: str(folder)}


class TestOwnDirectory:
    def test_is_used_as_it_is(self, tmp_path: Path) -> None:
        environ = given(tmp_path, etcd=programs.elf(), kubectl=programs.elf())
        found = resolve(tmp_path, environ=environ)
        assert found == {name: str(tmp_path / "given" / name) for name in WANTED}
        assert not (tmp_path / "cache").exists()

    def test_what_it_lacks_comes_from_elsewhere(self, tmp_path: Path) -> None:
        environ = given(tmp_path, etcd=programs.elf())
        found = resolve(tmp_path, environ=environ, downloads=Maker(kubectl=programs.elf()))
        assert found["etcd"] == str(tmp_path / "given" / "etcd")
        assert "cache" in found["kubectl"]

    @pytest.mark.parametrize(
        ("content", "flaw"),
        [(programs.elf()[:-1], "is cut off"), (b"text", "is not a program")],
    )
    def test_a_corrupt_one_is_named(self, tmp_path: Path, content: bytes, flaw: str) -> None:
        environ = given(tmp_path, etcd=content)
        with pytest.raises(errors.LocalError, match=rf"given/etcd {flaw}.*unset TENANTRY_BIN_DIR"):
            resolve(tmp_path, environ=environ)

    def test_one_that_is_not_executable_is_named(self, tmp_path: Path) -> None:
        environ = given(tmp_path, etcd=programs.elf())
        (tmp_path / "given" / "etcd").chmod(0o644)
        with pytest.raises(errors.LocalError, match=r"is not executable: chmod \+x"):
            resolve(tmp_path, environ=environ)

    def test_its_checksums_are_believed(self, tmp_path: Path) -> None:
        environ = given(tmp_path, etcd=programs.elf(), kubectl=programs.elf())
        sums = tmp_path / "given" / binaries.SUMS
        sums.write_text(f"{hashlib.sha256(programs.elf()).hexdigest()}  etcd\n")
        assert resolve(tmp_path, environ=environ)
        sums.write_text(f"{'0' * 64}  etcd\n")
        with pytest.raises(errors.LocalError, match=r"is not the file that .*SHA256SUMS lists"):
            resolve(tmp_path, environ=environ)


class TestOrder:
    def test_download_before_build(self, tmp_path: Path) -> None:
        builds = Maker(kubectl=programs.elf())
        resolve(tmp_path, downloads=Maker(etcd=programs.elf()), builds=builds)
        assert builds.asked == ["kubectl"]

    def test_the_cache_before_both(self, tmp_path: Path) -> None:
        first = resolve(tmp_path, builds=Maker(etcd=programs.elf(), kubectl=programs.elf()))
        assert resolve(tmp_path) == first

    def test_what_is_no_program_is_not_taken(self, tmp_path: Path) -> None:
        builds = Maker(etcd=programs.elf(), kubectl=programs.elf())
        resolve(tmp_path, downloads=Maker(etcd=programs.elf()[:-1]), builds=builds)
        assert builds.asked == ["etcd", "kubectl"]


class TestCorruptCache:
    @pytest.mark.parametrize("content", [b"", programs.elf()[:-1], programs.elf(b"other")])
    def test_is_made_anew(self, tmp_path: Path, content: bytes) -> None:
        good = Maker(etcd=programs.elf(), kubectl=programs.elf())
        found = resolve(tmp_path, builds=good)
        Path(found["etcd"]).write_bytes(content)
        again = Maker(etcd=programs.elf())
        assert resolve(tmp_path, builds=again) == found
        assert again.asked == ["etcd"]
        assert Path(found["etcd"]).read_bytes() == programs.elf()

    def test_is_named_when_nothing_can_make_it(self, tmp_path: Path) -> None:
        found = resolve(tmp_path, builds=Maker(etcd=programs.elf(), kubectl=programs.elf()))
        Path(found["etcd"]).write_bytes(b"")
        with pytest.raises(errors.NoBinariesError, match=r"cache .*: etcd: .*is corrupt"):
            resolve(tmp_path)

    def test_a_crash_while_making_leaves_nothing_that_is_used(self, tmp_path: Path) -> None:
        class Dies(Maker):
            def __call__(
                self, artefact: artefacts.Artefact, target: Path, step: progress.Step
            ) -> str:
                target.write_bytes(b"half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            resolve(tmp_path, builds=Dies())
        builds = Maker(etcd=programs.elf(), kubectl=programs.elf())
        resolve(tmp_path, builds=builds)
        assert builds.asked == WANTED


def test_when_no_source_works_each_says_why(tmp_path: Path) -> None:
    with pytest.raises(errors.NoBinariesError) as caught:
        resolve(
            tmp_path,
            downloads=Maker(etcd="cannot reach dl.example"),
            builds=Maker(etcd="no `go` on PATH"),
        )
    assert str(caught.value).splitlines() == [
        "no source has etcd:",
        "  TENANTRY_BIN_DIR: not set",
        f"  cache {tmp_path}/cache/control-plane: has no etcd, kubectl",
        "  download: cannot reach dl.example",
        "  build: no `go` on PATH",
    ]


def test_without_leave_to_make_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(errors.NoBinariesError, match="has no etcd"):
        binaries.resolve(
            [plan.ETCD],
            environ={"TENANTRY_CACHE_DIR": str(tmp_path)},
            report=progress.Silent(),
            make=False,
        )
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_make_once(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Maker):
        def __call__(self, artefact: artefacts.Artefact, target: Path, step: progress.Step) -> str:
            inside.set()
            assert go_on.wait(10)
            return super().__call__(artefact, target, step)

    builds = Slow(etcd=programs.elf(), kubectl=programs.elf())
    results: list[dict[str, str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(resolve(tmp_path, builds=builds)))
        for _ in range(2)
    ]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert results[0] == results[1]
    assert builds.asked == WANTED


def test_whoever_makes_them_for_ever_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "WAIT", 0.1)
    kept = cache.Cache(tmp_path / "cache")
    kept.prepare(0)
    with (
        state.locked(kept.lock),
        pytest.raises(errors.HeldError, match=rf"process {os.getpid()} still holds .*lock after 0"),
    ):
        resolve(tmp_path)


def test_a_full_disk_ends_it(tmp_path: Path) -> None:
    class Full(Maker):
        def __call__(self, artefact: artefacts.Artefact, target: Path, step: progress.Step) -> str:
            raise OSError(28, "No space left on device")

    with pytest.raises(errors.StorageError, match="No space left on device"):
        resolve(tmp_path, downloads=Full())
    # The lock is free again.
    assert cache.Cache(tmp_path / "cache").lock.exists()
    resolve(tmp_path, builds=Maker(etcd=programs.elf(), kubectl=programs.elf()))
