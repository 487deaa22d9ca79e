from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenantry.local import artefacts, cache, errors, plan

ETCD = artefacts.ALL[plan.ETCD]
KUBECTL = artefacts.ALL[plan.KUBECTL]


@pytest.fixture
def kept(tmp_path: Path) -> cache.Cache:
    made = cache.Cache(tmp_path)
    made.prepare(0)
    return made


def put(kept: cache.Cache, content: bytes = b"content") -> Path:
    made = kept.temporary(ETCD)
    made.write_bytes(content)
    return kept.add(ETCD, made, "by hand")


def test_what_was_added_is_there(kept: cache.Cache) -> None:
    assert kept.flaw(ETCD) == "not there"
    path = put(kept)
    assert kept.flaw(ETCD) == ""
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o111
    assert kept.origin(ETCD) == "by hand"
    assert artefacts.ETCD in str(path)


def test_one_changed_byte_is_found(kept: cache.Cache) -> None:
    path = put(kept)
    path.write_bytes(b"Content")
    assert "is corrupt" in kept.flaw(ETCD)


def test_a_cut_file_is_found(kept: cache.Cache) -> None:
    path = put(kept)
    path.write_bytes(b"cont")
    assert "is corrupt" in kept.flaw(ETCD)


def test_a_file_that_the_manifest_does_not_know_is_not_used(kept: cache.Cache) -> None:
    """As after a crash between the renaming and the manifest."""
    path = put(kept)
    (path.parent / cache.MANIFEST).unlink()
    assert "is not complete" in kept.flaw(ETCD)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"etcd": 1}'])
def test_a_broken_manifest_knows_nothing(kept: cache.Cache, content: str) -> None:
    path = put(kept)
    (path.parent / cache.MANIFEST).write_text(content)
    assert "is not complete" in kept.flaw(ETCD)
    put(kept, b"again")
    assert kept.flaw(ETCD) == ""


def test_an_unreadable_file_is_named(kept: cache.Cache) -> None:
    path = put(kept)
    path.unlink()
    path.mkdir()
    manifest = path.parent / cache.MANIFEST
    known = json.loads(manifest.read_text())
    known["etcd"]["size"] = path.stat().st_size
    manifest.write_text(json.dumps(known))
    assert "cannot be read: Is a directory" in kept.flaw(ETCD)


def test_each_component_has_its_own_manifest(kept: cache.Cache) -> None:
    put(kept)
    made = kept.temporary(KUBECTL)
    made.write_bytes(b"other")
    kept.add(KUBECTL, made, "by hand")
    assert kept.flaws([ETCD, KUBECTL]) == {"etcd": "", "kubectl": ""}
    assert kept.path(ETCD).parent != kept.path(KUBECTL).parent


def test_sweeping_removes_the_half_made_only(kept: cache.Cache) -> None:
    put(kept)
    left = kept.temporary(ETCD)
    left.write_bytes(b"half")
    kept.sweep()
    assert not left.exists()
    assert kept.flaw(ETCD) == ""


def test_an_almost_full_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="almost full"):
        cache.Cache(tmp_path).prepare(1 << 60)


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StorageError, match="Not a directory"):
        cache.Cache(tmp_path / "file").prepare(0)
