from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.crdgen import command


def test_the_files_in_the_repository_are_current() -> None:
    assert command.stale(command.TARGET) == []


def test_the_root_link_leads_to_the_package_data() -> None:
    link = command.TARGET.parents[3] / "deploy"

    assert link.is_symlink()
    assert (link / "crds").resolve() == command.TARGET.resolve()


def test_it_runs_by_directory_and_writes_the_same_bytes(tmp_path: Path) -> None:
    root = command.TARGET.parents[3]
    run = [sys.executable, str(root / "tools" / "crdgen"), "--target", str(tmp_path / "new")]

    subprocess.run(run, check=True, cwd=tmp_path, capture_output=True)

    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert written == {path.name: path.read_bytes() for path in command.TARGET.iterdir()}


def test_generation_is_stable() -> None:
    assert command.rendered() == command.rendered()


def test_check_names_edited_missing_and_leftover_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--target", str(tmp_path)]) == 0
    edited, missing, *_ = sorted(path for path in tmp_path.iterdir())
    edited.write_text(edited.read_text() + "# by hand\n")
    missing.unlink()
    (tmp_path / "old.yaml").write_text("{}")

    assert command.main(["--target", str(tmp_path), "--check"]) == 1

    told = capsys.readouterr().err
    assert all(name in told for name in (edited.name, missing.name, "old.yaml"))
    assert command.stale(tmp_path) == sorted([edited.name, missing.name, "old.yaml"])


def test_generating_repairs_the_directory(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("{}")

    assert command.main(["--target", str(tmp_path)]) == 0

    assert command.stale(tmp_path) == []
    assert not (tmp_path / "old.yaml").exists()


def test_no_anchors_and_small_enough_for_a_client_side_apply() -> None:
    for name, text in command.rendered().items():
        assert "&id" not in text, name
        assert len(text) < 200_000, name
