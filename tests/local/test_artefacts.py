from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.local import programs

from tenantry.core import errors as core_errors
from tenantry.local import artefacts, plan


@pytest.mark.parametrize(
    ("content", "flaw"),
    [
        pytest.param(programs.elf(), "", id="whole"),
        pytest.param(programs.elf()[:-1], "is cut off: 191 of 192 bytes", id="cut"),
        pytest.param(programs.elf()[:70], "is cut off", id="cut early"),
        pytest.param(b"", "is not a program", id="empty"),
        pytest.param(b"#!/bin/sh\n" * 20, "is not a program", id="script"),
        pytest.param(programs.elf(machine=8), "another kind of machine", id="foreign"),
        pytest.param(b"\x7fELF\x01\x01" + b"\0" * 80, "64 bit", id="32 bit"),
    ],
)
def test_program_flaw(tmp_path: Path, content: bytes, flaw: str) -> None:
    path = tmp_path / "program"
    path.write_bytes(content)
    found = artefacts.flaw(artefacts.ALL[plan.ETCD], path)
    assert found == flaw if not flaw else flaw in found


def test_stages_hold_stages(tmp_path: Path) -> None:
    path = tmp_path / "stages"
    path.write_text("nothing")
    assert artefacts.flaw(artefacts.ALL[plan.STAGES], path)
    path.write_text("apiVersion: x\nkind: Stage\n")
    assert not artefacts.flaw(artefacts.ALL[plan.STAGES], path)


@pytest.mark.parametrize(
    ("folder", "module", "version"),
    [
        ("kubernetes", "k8s.io/kubernetes", artefacts.KUBERNETES),
        ("etcd", "go.etcd.io/etcd/server/v3", artefacts.ETCD),
        ("kwok", "sigs.k8s.io/kwok", artefacts.KWOK),
    ],
)
def test_the_modules_pin_the_versions_that_are_downloaded(
    folder: str, module: str, version: str
) -> None:
    text = (artefacts.MODULES / folder / "go.mod").read_text()
    assert re.search(rf"^require {re.escape(module)} (\S+)$", text, re.MULTILINE)
    assert f"require {module} {version}\n" in text
    sums = (artefacts.MODULES / folder / "go.sum").read_text()
    assert f"{module} {version} h1:" in sums


def test_another_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(core_errors.TenantryError, match="s390x"):
        artefacts.architecture()
