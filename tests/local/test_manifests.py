from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenantry.local import errors, manifests, plan

ROLE = plan.Role(name="controller", argv=("true",), service_account="capsule")
PLAN = plan.Plan(name="one", binaries={}, api_ports=(20001,), roles=(ROLE, ROLE))


def described(found: list[dict[str, object]]) -> list[str]:
    return [f"{item['kind']} {item['metadata']['name']}" for item in found]  # type: ignore[index]


def test_what_every_platform_has() -> None:
    assert described(manifests.own(PLAN)) == [
        "StorageClass standard",
        "ClusterRole tenantry:kwok",
        "ClusterRoleBinding tenantry:kwok",
        "Namespace capsule-system",
        "ServiceAccount capsule",
    ]


def test_no_more_than_what_runs_needs() -> None:
    small = msgspec.structs.replace(PLAN, roles=(), components=())
    assert described(manifests.own(small)) == ["StorageClass standard"]


def test_documents_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(
        "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: List, items: [{kind: C}]}]\n"
    )
    assert [item["kind"] for item in manifests.read(path)] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "cannot read manifests"),
        ("text", "not an object"),
        ("{a: b}", "not an object"),
        ("- kind: A", "not an object"),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(content)
    with pytest.raises(errors.LocalError, match=problem):
        manifests.read(path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(errors.LocalError, match="No such file"):
        manifests.read(tmp_path / "none")
