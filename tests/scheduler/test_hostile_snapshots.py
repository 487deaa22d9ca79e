"""Archives that are corrupt, or made to do harm: an error that says so, or a skipped object."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pathlib
import random
import zipfile
from typing import Any

import pytest

from tenantry.cli import main
from tenantry.scheduler.engine import cycle, errors
from tenantry.scheduler.simulation import page, replay, report
from tenantry.scheduler.translate import archive

NOW = 2_000_000_000.0


def packed(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, content in files:
            made.writestr(name, content)
    return buffer.getvalue()


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}, "ports": [{"hostPort": 80}]}


def small() -> dict[str, Any]:
    """Return a snapshot with one of everything that is read."""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}
    term = {"labelSelector": selector, "topologyKey": "zone", "namespaceSelector": {}}
    affinity = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": selector}
            ]
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": term}
            ]
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }
    node = {
        "metadata": meta("n", labels={"zone": "z", "nvidia.com/gpu.memory": "80000"}),
        "spec": {"taints": [{"key": "t", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "9", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    group = {
        "metadata": meta("g"),
        "spec": {
            "queue": "q",
            "subGroups": [{"name": "s", "minMember": 1, "topologyConstraint": {"topology": "t"}}],
        },
    }
    pods = [
        {
            "metadata": meta(
                f"p{i}",
                uid=f"u{i}",
                labels={"app": "b", "kai.scheduler/subgroup-name": "s"},
                annotations={"pod-group-name": "g", **({"gpu-fraction": "0.5"} if i else {})},
            ),
            "spec": {
                "schedulerName": "kai-scheduler",
                "affinity": affinity,
                "tolerations": [{"key": "t", "operator": "Exists"}],
                "topologySpreadConstraints": [
                    {"topologyKey": "zone", "maxSkew": 1, "labelSelector": selector}
                ],
                "containers": [container(cpu="1", memory="1Gi")],
                "volumes": [{"persistentVolumeClaim": {"claimName": "v"}}],
                "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
            },
            "status": {"phase": "Pending"},
        }
        for i in range(2)
    ]
    bounds = {r: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for r in ("gpu", "cpu", "memory")}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    return {
        "config": {
            "actions": "allocate, reclaim",
            "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}]}],
        },
        "schedulerParams": {"schedulerName": "kai-scheduler", "partitionParams": {}},
        "rawObjects": {
            "nodes": [node],
            "namespaces": [{"metadata": meta("ns")}],
            "queues": [
                {"metadata": meta("root"), "spec": {"resources": bounds}},
                {"metadata": meta("q"), "spec": {"parentQueue": "root", "resources": bounds}},
            ],
            "podGroups": [group],
            "pods": pods,
            "priorityClasses": [{"metadata": meta("train"), "value": 50}],
            "bindRequests": [
                {"metadata": meta("b"), "spec": {"podName": "p1", "selectedNode": "n"}}
            ],
            "topologies": [{"metadata": meta("t"), "spec": {"levels": [{"nodeLabel": "zone"}]}}],
            "deviceClasses": [
                {
                    "metadata": meta("gpu.nvidia.com"),
                    "spec": {"selectors": [{"cel": {"expression": "device.driver != 'x'"}}]},
                }
            ],
            "resourceSlices": [
                {
                    "metadata": meta("s"),
                    "spec": {
                        "driver": "gpu.nvidia.com",
                        "nodeName": "n",
                        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                        "devices": [{"name": "d0", "attributes": {"a": {"string": "x"}}}],
                    },
                }
            ],
            "resourceClaims": [
                {"metadata": meta("c"), "spec": {"devices": {"requests": [request]}}}
            ],
            "persistentVolumeClaims": [{"metadata": meta("v"), "spec": {"volumeName": "pv"}}],
            "persistentVolumes": [{"metadata": meta("pv"), "spec": {}}],
            "configMaps": [{"metadata": meta("m")}],
            "nodeResourceTopologies": [
                {
                    "metadata": meta("n"),
                    "zones": [
                        {"name": "z0", "resources": [{"name": "cpu", "allocatable": "8"}]},
                    ],
                }
            ],
        },
    }


FILES = {
    "nothing": b"",
    "text": b"hello",
    "half a zip": packed(("snapshot.json", b"{}" * 500))[:60],
    "no snapshot in it": packed(("other.json", b"{}")),
    "a path out of the archive": packed(("../../snapshot.json", b"{}")),
    "not JSON": packed(("snapshot.json", b"{")),
    "not text": packed(("snapshot.json", b"\xff\xfe\x00{")),
    "a list": b"[]",
    "no objects": b'{"rawObjects": []}',
    "nested without end": b'{"rawObjects": ' + b"[" * 200_000,
    "a bomb": packed(("snapshot.json", b" " * (64 << 20))),
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_refused(data: bytes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.InvalidSnapshot):
        archive.read(data, now=NOW)
    path = tmp_path / "bad.zip"
    path.write_bytes(data)
    assert main.run(["scheduler", "simulate", "--snapshot", str(path)]) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert len(told.splitlines()) <= 3


def test_flipped_bytes_are_noticed() -> None:
    dice = random.Random(1)
    whole = packed(("snapshot.json", json.dumps(small()).encode()))
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(3):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        with contextlib.suppress(errors.InvalidSnapshot):
            archive.read(bytes(data), now=NOW)


def test_other_files_of_an_archive_are_left_alone(tmp_path: pathlib.Path) -> None:
    data = packed(
        ("../escaped", b"x"),
        ("/etc/escaped", b"x"),
        ("snapshot.json", json.dumps(small()).encode()),
    )
    read = archive.read(data, now=NOW)
    assert len(read.seen.jobs) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_well_formed_is_read_whole() -> None:
    read = archive.load(small(), now=NOW)
    assert read.skipped == []
    assert read.seen.set_aside == {}
    assert read.seen.tables.tasks[1] is not None


WRONG: list[Any] = [
    None,
    True,
    -1,
    10**40,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "-5",
    "1e999",
    [],
    [None],
    ["x"],
    {},
    {"x": {}},
    [[]],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            found += places(value[index], (*path, index))
    return found


def spoiled(values: int) -> list[str]:
    """Put wrong values in each place of a snapshot; return what went wrong beside that object."""
    whole = small()
    problems = []
    for number, path in enumerate(places(whole)):
        for shift in range(values):
            wrong = WRONG[(number + shift * 6) % len(WRONG)]
            given = copy.deepcopy(whole)
            target: Any = given
            for step in path[:-1]:
                target = target[step]
            target[path[-1]] = wrong
            try:
                problem = outcome(given)
            except (errors.InvalidSnapshot, errors.UnknownName):
                continue
            except Exception as fault:
                problem = f"{type(fault).__name__}: {fault}"
            if problem:
                problems.append(f"{path} = {wrong!r}: {problem}")
    return problems


def test_wrong_values_anywhere_spoil_one_object() -> None:
    assert spoiled(1) == []


@pytest.mark.long
def test_every_wrong_value_anywhere() -> None:
    assert spoiled(len(WRONG)) == []


def outcome(given: dict[str, Any]) -> str:
    """Return what went wrong in a cycle, if anything."""
    text = json.dumps(given).encode()
    read = archive.read(text, now=NOW)
    engine = cycle.Engine(read.settings)
    made = engine.run(read.seen, now=NOW)
    if made.errors:
        return f"errors {made.errors}"
    return ""


def test_a_spoiled_snapshot_can_still_be_shown() -> None:
    given = small()
    given["rawObjects"]["pods"][0]["metadata"]["name"] = "<script>"
    given["rawObjects"]["queues"].append({"metadata": {"name": 5}, "spec": "x"})
    read = archive.load(given, now=NOW)
    assert len(read.skipped) == 1
    played = replay.run(read.seen, read.settings, cycles=2, now=NOW)
    assert report.as_text(played)
    assert "<script>" not in page.render(played, "x")
