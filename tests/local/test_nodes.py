from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import errors, nodes


def test_a_count_makes_equal_nodes() -> None:
    made = nodes.wanted("2", 8)
    assert [node["metadata"]["name"] for node in made] == ["node-1", "node-2"]
    assert made[0]["status"]["capacity"][nodes.GPU] == "8"
    assert made[0]["status"]["allocatable"] == made[0]["status"]["capacity"]
    assert made[0]["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"
    assert made[0]["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"


def test_without_gpus_nothing_speaks_of_them() -> None:
    assert "nvidia" not in str(nodes.wanted("1", 0))


@pytest.mark.parametrize(("text", "gpus"), [("5001", 0), ("1", -1), ("1", 65)])
def test_too_many_are_refused(text: str, gpus: int) -> None:
    with pytest.raises(core_errors.InvalidValueError):
        nodes.wanted(text, gpus)


FILE = """
apiVersion: v1
kind: Node
metadata:
  name: big
  labels: {zone: a}
spec:
  taints: [{key: k, effect: NoSchedule}]
status:
  capacity: {cpu: 128, nvidia.com/gpu: 16}
  allocatable: {cpu: "127"}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: small}}
"""


def test_a_file_tells_each_node(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(FILE)
    big, small = nodes.wanted(str(path), 0)
    assert big["metadata"]["labels"]["zone"] == "a"
    assert nodes.LABEL in big["metadata"]["labels"]
    assert big["status"]["capacity"]["cpu"] == "128"
    assert big["status"]["capacity"]["pods"] == "110"
    assert big["status"]["allocatable"]["cpu"] == "127"
    assert big["status"]["allocatable"][nodes.GPU] == "16"
    assert big["spec"]["taints"][0]["key"] == "k"
    assert small["metadata"]["name"] == "small"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("kind: Pod", "objects of kind Node"),
        ("- 1", "objects of kind Node"),
        ("{", "cannot read nodes"),
        ("{kind: Node}", "metadata.name"),
        ("{kind: Node, metadata: {name: A_B}}", "metadata.name"),
        ("{kind: Node, metadata: {name: a}}\n---\n{kind: Node, metadata: {name: a}}", "one node"),
    ],
)
def test_a_file_that_makes_no_sense(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(content)
    with pytest.raises((errors.LocalError, core_errors.InvalidValueError), match=problem):
        nodes.wanted(str(path), 0)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(errors.LocalError, match="No such file"):
        nodes.wanted("nowhere.yaml", 0)


def test_gpus_are_for_a_count_only(tmp_path: Path) -> None:
    with pytest.raises(core_errors.InvalidValueError, match="only with a count"):
        nodes.wanted(str(tmp_path), 4)
