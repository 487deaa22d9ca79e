"""Two tenants with one object of each cluster-wide kind, and the people of the matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import harness, metrics, served
from .harness import USERS, Caller, World

METRICS = f"{metrics.PATH}/nodes"
OWNER = "system:serviceaccount:sea-1:captain"
EVERY = ("Nodes", "StorageClasses", "IngressClasses", "PriorityClasses", "RuntimeClasses",
         "PersistentVolumes")  # fmt: skip


def thing(
    kind: str, version: str, name: str, labels: dict[str, str], **more: Any
) -> harness.Object:
    metadata = {"name": name, "labels": {"matrix": "yes", **labels}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def of(tenant: str) -> list[harness.Object]:
    """Return one object of each cluster-wide kind that belongs to a tenant."""
    mine = {"for": tenant}
    labelled = {"capsule.clastix.io/tenant": tenant}
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/x"},
    }  # fmt: skip
    return [
        thing("Node", "v1", f"m-{tenant}", mine),
        thing("StorageClass", "storage.k8s.io/v1", f"m-{tenant}", mine, provisioner="x.com/none"),
        thing("IngressClass", "networking.k8s.io/v1", f"m-{tenant}", mine,
              spec={"controller": "x.com/none"}),
        thing("PriorityClass", "scheduling.k8s.io/v1", f"m-{tenant}", mine, value=5),
        thing("RuntimeClass", "node.k8s.io/v1", f"m-{tenant}", mine, handler="none"),
        thing("PersistentVolume", "v1", f"m-{tenant}", labelled, spec=spec),
    ]  # fmt: skip


def tenant(name: str, *owners: harness.Object) -> harness.Object:
    mine = {"matchLabels": {"for": name}}
    return harness.tenant(
        name, *owners, nodeSelector={"for": name}, storageClasses=mine,
        ingressOptions={"allowedClasses": {"allowed": [f"m-{name}"]}},
        priorityClasses={"allowedRegex": f"^m-{name}$"}, runtimeClasses=mine,
    )  # fmt: skip


def started(world: World, folder: Path) -> Iterator[dict[str, Path]]:
    """Make all that is read, and a kubeconfig for everybody."""
    answering = served.Served(
        folder,
        metrics.answer,
        host="0.0.0.0",
    )
    aggregated = metrics.behind(answering.port)
    objects = [
        tenant("sea", harness.user("marin", *EVERY),
               harness.user(OWNER, *EVERY, kind="ServiceAccount")),
        tenant("sky", harness.user("sky-owners", *EVERY, kind="Group")),
        *of("sea"), *of("sky"), *aggregated,
    ]  # fmt: skip
    text = "\n---\n".join(map(json.dumps, objects))
    world.plane.run("apply", "--server-side", "-f", "-", stdin=text)
    marin, bird = world.kubeconfig("marin", USERS), world.kubeconfig("bird", USERS, "sky-owners")
    for owner, path in (("sea", marin), ("sky", bird)):
        caller = Caller(path)
        labels = {"capsule.clastix.io/tenant": owner}
        body = {"metadata": {"name": f"{owner}-1", "labels": labels}}
        harness.eventually(
            lambda caller=caller, body=body: (  # type: ignore[misc]
                caller.ask("POST", "/api/v1/namespaces", body)[0] == 201
            )
        )
        notes = {"metadata": {"name": f"{owner}-notes"}}
        there = f"/api/v1/namespaces/{owner}-1/configmaps"
        harness.eventually(
            lambda caller=caller, there=there, notes=notes: (  # type: ignore[misc]
                caller.ask("POST", there, notes)[0] == 201
            )
        )
        caller.close()
    world.plane.run("create", "serviceaccount", "captain", "-n", "sea-1")
    token = world.plane.run("create", "token", "captain", "-n", "sea-1").stdout.strip()
    found = {
        "admin": world.kubeconfig("admin", "system:masters"),
        "marin": marin,
        "bird": bird,
        "captain": world.with_token(token, "captain"),
        "plain": world.kubeconfig("plain", USERS),
        "stranger": world.kubeconfig("stranger"),
    }
    # Discovery is looked at again every ten seconds.
    caller = Caller(marin)
    harness.eventually(lambda: caller.ask("GET", f"{METRICS}/m-sea")[0] == 200, 40)
    caller.close()
    yield found
    # The rest is nobody else's, and goes with the plane; this would break others' discovery.
    world.plane.run("delete", "apiservice", "v1beta1.metrics.k8s.io")
    world.plane.run("delete", "service,endpointslice", "metrics", "-n", "default")
    world.plane.run("delete", "clusterrole", metrics.READER["metadata"]["name"])
    answering.close()
