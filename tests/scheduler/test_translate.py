"""Objects and archives of Kubernetes and KAI."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from tenantry.scheduler.engine import cycle, device_specs, errors, specs, status
from tenantry.scheduler.translate import archive, devices, groups, nodes, pods

SNAPSHOTS = pathlib.Path(__file__).parents[1] / "fixtures/scheduler/snapshots"
NOW = 2_000_000_000.0


def pod(**more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "annotations": {"pod-group-name": "g"},
        },
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    }
    for part, fields in more.items():
        made[part] = {**made[part], **fields}
    return made


def task(**more: Any) -> specs.Task:
    return pods.Translator().task(pod(**more), now=NOW)


def requests(**amounts: str) -> dict[str, Any]:
    named = {name.replace("gpu", "nvidia.com/gpu"): amount for name, amount in amounts.items()}
    return {"name": "c", "resources": {"requests": named}}


def test_requests_of_containers_sidecars_init_and_overhead() -> None:
    spec = {
        "initContainers": [
            {**requests(cpu="3"), "name": "once"},
            {**requests(cpu="500m"), "restartPolicy": "Always"},
            {**requests(cpu="2800m"), "name": "beside the sidecar"},
        ],
        "containers": [requests(cpu="1", memory="1Gi"), requests(cpu="1", gpu="2")],
        "overhead": {"cpu": "250m"},
    }
    made = task(spec=spec)
    # max(1 + 1 + 0.5, 3, 0.5 + 2.8) + 0.25
    assert made.requests == {"cpu": 3550, "memory": 1 << 30}
    assert made.gpus == 2000


def test_limits_stand_in_for_requests() -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    made = task(spec={"containers": [container]})
    assert made.requests["cpu"] == 1000
    assert made.guaranteed


STATES = [
    ({}, {}, {}, status.PENDING),
    ({}, {"schedulingGates": [{"name": "x"}]}, {}, status.GATED),
    ({}, {"nodeName": "n"}, {}, status.BOUND),
    ({}, {"nodeName": "n"}, {"phase": "Running"}, status.RUNNING),
    ({}, {}, {"phase": "Succeeded"}, status.SUCCEEDED),
    ({}, {}, {"phase": "Odd"}, status.UNKNOWN),
    (
        {"deletionTimestamp": "2033-05-18T03:33:00Z"},
        {"nodeName": "n"},
        {"phase": "Running"},
        status.RELEASING,
    ),
    (
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"nodeName": "n"},
        {"phase": "Running"},
        status.STUCK,
    ),
]


@pytest.mark.parametrize(("meta", "spec", "state", "wanted"), STATES)
def test_states(meta: Any, spec: Any, state: Any, wanted: int) -> None:
    assert task(metadata=meta | pod()["metadata"], spec=spec, status=state).status == wanted


def test_a_live_bind_request() -> None:
    made = pods.Translator().task(pod(), now=NOW, bound_to="n")
    assert (made.status, made.node) == (status.BINDING, "n")


def annotated(**notes: str) -> specs.Task:
    named = {name.replace("_", "-"): value for name, value in notes.items()}
    metadata = {"annotations": {"pod-group-name": "g", **named}}
    return task(metadata=metadata)


def test_fractions() -> None:
    assert annotated(gpu_fraction="0.33").portion == 330_000
    made = annotated(gpu_memory="4000", gpu_fraction_num_devices="2")
    assert (made.gpu_memory, made.devices) == (4000, 2)
    assert annotated(gpu_fraction="NaN").portion > 1_000_000  # refused by the engine


def test_groups_from_either_kind_of_label() -> None:
    assert pods.gpu_groups({"runai-gpu-group": "g"}) == ("g",)
    assert pods.gpu_groups({"runai-gpu-group/b": "b", "runai-gpu-group/a": "a"}) == ("a", "b")


def test_pods_of_others_are_foreign() -> None:
    assert task(spec={"schedulerName": "default-scheduler"}).foreign
    assert task(metadata={"annotations": {}}).foreign
    made = task(metadata={"namespace": "kai-resource-reservation"})
    assert made.reservation


def test_constraints_are_shared_between_equal_pods() -> None:
    translator = pods.Translator()
    spec = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    one = translator.task(pod(spec=spec), now=NOW)
    two = translator.task(pod(spec=spec), now=NOW)
    assert one.constraints is two.constraints
    assert translator.task(pod(), now=NOW).constraints is specs.FREE


@pytest.mark.parametrize(
    ("label", "memory"),
    [("81920", (81_900, True)), ("85899345920", (81_900, True)), ("x", (100, False))],
)
def test_gpu_memory_label(label: str, memory: tuple[int, bool]) -> None:
    assert nodes.gpu_memory({"nvidia.com/gpu.memory": label}) == memory


def test_queue_units_and_what_is_missing() -> None:
    item = {
        "metadata": {"name": "q"},
        "spec": {"resources": {"gpu": {"quota": 0.33, "limit": 1, "overQuotaWeight": 1}}},
    }
    free, strict = groups.queue(item), groups.queue(item, missing_is_zero=True)
    assert free.resources["gpu"] == specs.Bound(quota=330, limit=1000, weight=1.0)
    assert free.resources["cpu"] == specs.Bound(quota=-1, limit=-1)
    assert strict.resources["cpu"] == specs.Bound(quota=0, limit=0, weight=0)


def test_pod_group() -> None:
    item = {
        "metadata": {
            "name": "g",
            "namespace": "ns",
            "annotations": {"tenantry.io/expected-runtime": "1h30m"},
        },
        "spec": {
            "queue": "q",
            "minMember": 3,
            "priorityClassName": "train",
            "preemptionDelay": "90s",
            "subGroups": [{"name": "a", "minMember": 1}],
        },
    }
    made = groups.job(item, {"train": 60})
    assert (made.priority, made.preemption_delay, made.expected_runtime) == (60, 90.0, 5400.0)
    assert groups.job(item, {}).priority == 50


@pytest.mark.parametrize(
    ("case", "binds", "evictions", "plans"), [("b", 0, 100, 100), ("c", 500, 0, 0), ("z", 0, 0, 0)]
)
def test_recorded_snapshots(case: str, binds: int, evictions: int, plans: int) -> None:
    snapshot = archive.read((SNAPSHOTS / f"{case}.zip").read_bytes(), now=NOW)
    assert snapshot.skipped == []
    decided = cycle.Engine(snapshot.settings).run(snapshot.seen, now=NOW)
    assert (len(decided.binds), len(decided.evictions), len(decided.plans)) == (
        binds,
        evictions,
        plans,
    )


def test_numa_layout_and_placement() -> None:
    resources = [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "1"}]
    layout = nodes.numa(
        {
            "metadata": {"name": "n"},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": "restricted"},
                {"name": "topologyManagerScope", "value": "pod"},
            ],
            "zones": [{"name": "zone-0", "type": "Node", "resources": resources}],
        }
    )
    (zone,) = layout.zones
    assert (layout.policy, layout.scope) == ("restricted", "pod")
    assert (zone.allocatable, zone.available) == ({"cpu": 4000}, {"cpu": 1000})
    key = "kai.scheduler/numa-placement-observed"
    text = '[{"zone": "zone-0", "amount": {"cpu": "3"}}]'
    assert pods.numa_placement({key: text}) == (("zone-0", (("cpu", 3000),)),)
    assert pods.numa_placement({key: "{"}) == ()


def test_local_volumes_bind_pods_to_their_node() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    amounts = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    unbound = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": ["b"]}]}
    content = archive.write(
        {
            "nodes": [
                {"metadata": {"name": name, "labels": {"host": name}}, "status": ready | amounts}
                for name in "ab"
            ],
            "queues": [
                {
                    "metadata": {"name": "q"},
                    "spec": {"resources": dict.fromkeys(("cpu", "gpu", "memory"), unbound)},
                }
            ],
            "podGroups": [{"metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": "q"}}],
            "pods": [pod(spec={"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]})],
            "persistentVolumeClaims": [
                {"metadata": {"name": "data", "namespace": "ns"}, "spec": {"volumeName": "v"}}
            ],
            "persistentVolumes": [
                {
                    "metadata": {"name": "v"},
                    "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
                }
            ],
        }
    )
    snapshot = archive.read(content, now=NOW)
    assert snapshot.skipped == []
    (bind,) = cycle.Engine(snapshot.settings).run(snapshot.seen, now=NOW).binds
    assert bind.node == "b"


def test_claims_selectors_and_extended_names_of_devices() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    unbound = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    driver = "gpu.nvidia.com"
    offered = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": model}, f"{driver}/index": {"int": index}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index, model in enumerate(("T4", "H100", "T4"))
    ]
    pick = f'device.attributes["{driver}"].model == "H100" && device.driver == "{driver}"'
    claimed = pod(
        spec={
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "direct"},
                {"name": "b", "resourceClaimTemplateName": "t"},
            ]
        },
        status={"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}]},
    )
    named = pod(spec={"containers": [requests(gpu="1")]})
    named["metadata"] |= {"name": "named", "uid": "named"}
    named["metadata"]["annotations"] = {"pod-group-name": "h"}

    def claim(name: str, request: dict[str, Any], **meta: Any) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": "ns", **meta},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
        }

    content = archive.write(
        {
            "nodes": [
                {
                    "metadata": {"name": "n"},
                    "status": ready | {"allocatable": {"cpu": "9", "memory": "64Gi", "pods": "10"}},
                }
            ],
            "queues": [
                {
                    "metadata": {"name": "q"},
                    "spec": {"resources": dict.fromkeys(("cpu", "gpu", "memory"), unbound)},
                }
            ],
            "deviceClasses": [
                {
                    "metadata": {"name": "gpus"},
                    "spec": {
                        "extendedResourceName": "nvidia.com/gpu",
                        "selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}],
                    },
                }
            ],
            "resourceSlices": [
                {
                    "metadata": {"name": "s"},
                    "spec": {
                        "driver": driver,
                        "nodeName": "n",
                        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                        "devices": offered,
                    },
                }
            ],
            "resourceClaims": [
                claim(
                    "direct",
                    {
                        "deviceClassName": "gpus",
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "selectors": [{"cel": {"expression": pick}}],
                    },
                    labels={"kai.scheduler/queue": "q"},
                ),
                claim("made", {"deviceClassName": "gpus"}, ownerReferences=[{"kind": "Pod"}]),
            ],
            "podGroups": [
                {"metadata": {"name": name, "namespace": "ns"}, "spec": {"queue": "q"}}
                for name in "gh"
            ],
            "pods": [claimed, named],
        }
    )
    snapshot = archive.read(content, now=NOW)
    assert snapshot.skipped == []
    made = cycle.Engine(snapshot.settings).run(snapshot.seen, now=NOW)
    assert not made.reasons
    binds = made.binds
    assert {
        name: [item.device for item in items] for bind in binds for name, items in bind.devices
    } == {"direct": ["gpu-1"], "made": ["gpu-0"], "named-extended-resources": ["gpu-2"]}


def test_one_bad_object_is_skipped() -> None:
    good = {
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    bad = {"metadata": {"name": "m"}, "status": {"allocatable": {"cpu": "lots"}}}
    snapshot = archive.read(archive.write({"nodes": [bad, good]}), now=NOW)
    assert list(snapshot.seen.tables.nodes.by_name) == ["n"]
    assert len(snapshot.skipped) == 1
    assert "nodes m" in snapshot.skipped[0]


def test_written_archives_are_equal_for_equal_clusters() -> None:
    assert archive.write({"nodes": []}) == archive.write({"nodes": []})
    assert archive.read(json.dumps({"rawObjects": {}}).encode(), now=NOW).skipped == []


@pytest.mark.parametrize("data", [b"", b"PK", b"[]", b"{}", b'{"rawObjects": 3}'])
def test_not_a_snapshot(data: bytes) -> None:
    with pytest.raises(errors.InvalidSnapshot):
        archive.read(data, now=NOW)


def _in_pool(name: str, pool: str, **more: Any) -> dict[str, Any]:
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    return {"metadata": {"name": name, "namespace": "ns", "labels": labels}, **more}


@pytest.mark.parametrize(("pool", "suffix"), [("blue", "b"), ("", "d")])
def test_a_snapshot_is_of_one_node_pool(pool: str, suffix: str) -> None:
    """Nodes, queues and groups are a pool's own; pods are not filtered."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    objects = {
        "nodes": [_in_pool("nb", "blue", status=ready), _in_pool("nd", "", status=ready)],
        "queues": [_in_pool("qb", "blue"), _in_pool("qd", "")],
        "podGroups": [_in_pool("gb", "blue"), _in_pool("gd", "")],
    }
    params = {
        "partitionParams": {
            "nodePoolLabelKey": "kai.scheduler/node-pool",
            "nodePoolLabelValue": pool,
        }
    }
    seen = archive.read(archive.write(objects, params=params), now=NOW).seen
    assert list(seen.tables.nodes.by_name) == [f"n{suffix}"]
    assert list(seen.queues) == [f"q{suffix}"]
    assert [key[1] for key in seen.jobs] == [f"g{suffix}"]


def test_a_group_that_backs_off_had_its_try() -> None:
    tried = {"schedulingConditions": [{"nodePool": "blue", "type": "UnschedulableOnNodePool"}]}
    for backoff, pool, held in ((1, "blue", True), (1, "red", False), (-1, "blue", False)):
        item = {"metadata": {"name": "g"}, "spec": {"schedulingBackoff": backoff}, "status": tried}
        assert bool(groups.job(item, {}, node_pool=pool).held) is held


@pytest.mark.parametrize(
    ("state", "limit", "live"),
    [
        ({}, None, True),
        ({"phase": "Failed"}, None, False),
        ({"phase": "Failed", "failedAttempts": 1}, 3, True),
        ({"phase": "Failed", "failedAttempts": 3}, 3, False),
    ],
)
def test_bind_requests_name_shared_devices(state: Any, limit: int | None, live: bool) -> None:
    request = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {
            "podName": "p",
            "selectedNode": "n",
            "selectedGPUGroups": ["g-1"],
            "backoffLimit": limit,
        },
        "status": state,
    }
    half = pod(metadata={"annotations": {"pod-group-name": "g", "gpu-fraction": "0.5"}})
    objects = {"pods": [half], "bindRequests": [request]}
    tasks = archive.read(archive.write(objects), now=NOW).seen.tables.tasks
    assert tasks[0] is not None
    wanted = (status.BINDING, "n", ("g-1",)) if live else (status.PENDING, "", ())
    assert (tasks[0].status, tasks[0].node, tasks[0].groups) == wanted


def test_depth_of_queues_comes_with_the_configuration() -> None:
    given = {"actions": "allocate", "queueDepthPerAction": {"allocate": 3}}
    read = archive.read(archive.write({}, settings=given), now=NOW)
    assert dict(read.settings.queue_depth) == {"allocate": 3}


def test_taints_and_parts_of_devices() -> None:
    piece = devices.device_slice(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "pool": {"name": "n"},
                "devices": [
                    {
                        "name": "d",
                        "taints": [{"key": "broken", "effect": "NoExecute"}],
                        "allowMultipleAllocations": True,
                        "capacity": {
                            "memory": {
                                "value": "80Gi",
                                "requestPolicy": {
                                    "default": "10Gi",
                                    "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"},
                                },
                            }
                        },
                    }
                ],
            },
        }
    )
    gib = 1000 << 30
    (known,) = piece.devices
    assert known.taints == (specs.Taint(key="broken", effect="NoExecute"),)
    assert known.shareable
    assert known.policies["gpu.nvidia.com/memory"] == device_specs.CapacityPolicy(
        default=10 * gib, least=5 * gib, most=40 * gib, step=5 * gib
    )
    made = devices.claim(
        {
            "metadata": {"name": "c"},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "r",
                            "exactly": {
                                "deviceClassName": "gpus",
                                "tolerations": [{"key": "broken", "operator": "Exists"}],
                                "capacity": {"requests": {"memory": "7Gi"}},
                            },
                        }
                    ],
                    "constraints": [{"distinctAttribute": "gpu.nvidia.com/uuid"}],
                }
            },
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "driver": "gpu.nvidia.com",
                                "pool": "n",
                                "device": "d",
                                "consumedCapacity": {"memory": "10Gi"},
                            }
                        ]
                    }
                }
            },
        }
    )
    (((request,),), (given,)) = made.requests, made.allocated
    assert request.tolerates(known)
    assert request.capacity == (("memory", 7 * gib),)
    assert made.differ == (("gpu.nvidia.com/uuid", ()),)
    assert given.consumed == (("gpu.nvidia.com/memory", 10 * gib),)


def test_what_is_asked_for_the_whole_pod_counts() -> None:
    spec = {
        "containers": [requests(cpu="1", memory="1Gi", gpu="1")],
        "resources": {"requests": {"cpu": "3", "nvidia.com/gpu": "9"}},
        "overhead": {"cpu": "100m"},
    }
    made = task(spec=spec)
    assert (made.requests, made.gpus) == ({"cpu": 3100, "memory": 1 << 30}, 1000)


def test_config_maps_that_a_pod_needs() -> None:
    spec = {
        "volumes": [
            {"configMap": {"name": "a"}},
            {"configMap": {"name": "optional", "optional": True}},
            {"projected": {"sources": [{"configMap": {"name": "b"}}, {"secret": {"name": "s"}}]}},
            {"configMap": {"name": "p-abc-shared-gpu-0"}},
        ],
        "containers": [
            {
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "p-abc-shared-gpu-0-evar"}}],
                "env": [
                    {"name": "x", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
                    {"name": "y", "value": "z"},
                ],
            }
        ],
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "a"}}]}],
    }
    notes = {"pod-group-name": "g", "runai/shared-gpu-configmap": "p-abc-shared-gpu"}
    made = task(spec=spec, metadata={"annotations": notes})
    assert made.constraints.config_maps == ("a", "b", "d")


ZONE = "topology.kubernetes.io/zone"
LATER = {"volumeBindingMode": "WaitForFirstConsumer"}
IN_WEST = [{"matchLabelExpressions": [{"key": ZONE, "values": ["west"]}]}]


@pytest.mark.parametrize(
    ("claim", "volume", "kind", "nodes"),
    [
        ({"volumeName": "v"}, {"labels": {ZONE: "west"}}, {}, ["w"]),
        ({"volumeName": "v"}, {"labels": {ZONE: "west__east"}}, {}, ["e", "w"]),
        ({"volumeName": "v"}, {}, {}, None),
        ({"storageClassName": "k"}, {}, {}, []),
        ({"storageClassName": "k"}, {}, LATER, None),
        ({"storageClassName": "k"}, {}, {**LATER, "allowedTopologies": IN_WEST}, ["w"]),
        ({"storageClassName": "unknown"}, {}, {}, None),
    ],
)
def test_nodes_of_volume_claims(claim: Any, volume: Any, kind: Any, nodes: Any) -> None:
    objects = {
        "nodes": [
            {"metadata": {"name": zone[0], "labels": {ZONE: zone}}} for zone in ("east", "west")
        ],
        "persistentVolumeClaims": [{"metadata": {"name": "c", "namespace": "ns"}, "spec": claim}],
        "persistentVolumes": [{"metadata": {"name": "v", **volume}}],
        "storageClasses": [{"metadata": {"name": "k"}, **kind}],
    }
    read = archive.read(archive.write(objects), now=NOW)
    assert read.skipped == []
    assert read.seen.volumes is not None
    found = read.seen.volumes["ns", "c"]
    assert (None if found is None else sorted(found)) == nodes


def test_ephemeral_volumes_are_named_after_their_pod() -> None:
    made = task(spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]})
    assert made.constraints.volumes == ("p-scratch",)
