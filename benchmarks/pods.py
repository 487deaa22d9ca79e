"""An API server that has nothing but pods, all answers ready: never the limit of a measurement.

    python -m benchmarks.pods NUMBER RATE

Prints its port. Serves lists (in pages), streaming lists, and watches that bring RATE changes a
second, as HTTP/1.1 in the clear. Pods are as Kubernetes sends them, 3.5 KB with managedFields.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import Any
from urllib import parse

NODES = 200
FIRST_VERSION = 1_000_000
#: As a rate: every watch ends at once with 410, so that whoever follows lists again and again.
GONE = -1


def pod(number: int) -> dict[str, Any]:
    """Make one pod of a job of ten."""
    job = number // 10
    name = f"train-{job:05d}-worker-{number % 10}"
    labels = {
        "app": "train",
        "job-name": f"train-{job:05d}",
        "team": f"team-{job % 50}",
        "training.kubeflow.org/replica-index": str(number % 10),
    }
    owned = {
        "f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in labels}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"main"}': {
                    ".": {},
                    **{
                        f"f:{field}": {}
                        for field in ("args", "command", "env", "image", "name", "resources",
                                      "terminationMessagePath", "volumeMounts")
                    },
                }
            },
            "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
        },
    }  # fmt: skip
    resources = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    when = "2026-01-01T00:00:00Z"
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{job % 50}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": when,
            "labels": labels,
            "annotations": {"prometheus.io/scrape": "true", "example.com/queue": "research"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"train-{job:05d}",
                 "uid": f"10000000-0000-4000-8000-{job:012d}", "controller": True,
                 "blockOwnerDeletion": True}
            ],
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": when,
                 "fieldsType": "FieldsV1", "fieldsV1": owned}
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "nodeName": f"node-{number % NODES:04d}",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "registry.example.com/train:1.2.3",
                 "command": ["python", "-m", "train"], "args": ["--epochs", "90"],
                 "env": [{"name": f"SETTING_{n}", "value": "x" * 20} for n in range(8)],
                 "resources": {"limits": resources, "requests": resources},
                 "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": 300}
                for key in ("not-ready", "unreachable")
            ],
        },
        "status": {
            "phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.1", "startTime": when,
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None,
                 "lastTransitionTime": when}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready",
                             "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {"name": "main", "ready": True, "restartCount": 0, "started": True,
                 "image": "registry.example.com/train:1.2.3", "imageID": "sha256:" + "0" * 64,
                 "containerID": "containerd://" + "1" * 64,
                 "state": {"running": {"startedAt": when}}}
            ],
        },
    }  # fmt: skip


class Server:
    """Answers from memory."""

    def __init__(self, number: int, rate: int) -> None:
        self.rate = rate
        pods = [pod(each) for each in range(number)]
        self.objects = [json.dumps(each, separators=(",", ":")).encode() for each in pods]
        self.typed = [
            json.dumps({"kind": "Pod", "apiVersion": "v1", **each}, separators=(",", ":"))
            for each in pods
        ]
        self.versions = [f'"resourceVersion":"{each + 1}"' for each in range(number)]

    def page(self, query: dict[str, str]) -> bytes:
        """Make a page of the list."""
        start = int(query.get("continue", "0"))
        end = start + (int(query.get("limit") or 0) or len(self.objects))
        more = str(end) if end < len(self.objects) else ""
        head = (
            f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{FIRST_VERSION}"'
            f',"continue":"{more}"}},"items":['
        )
        return head.encode() + b",".join(self.objects[start:end]) + b"]}"

    def line(self, kind: str, number: int, version: int) -> bytes:
        """Make a line of a watch."""
        changed = self.typed[number].replace(
            self.versions[number], f'"resourceVersion":"{version}"', 1
        )
        return f'{{"type":"{kind}","object":{changed}}}\n'.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests on one connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                target = parse.urlsplit(head.split(" ")[1])
                query = dict(parse.parse_qsl(target.query))
                if query.get("watch", "").lower() == "true":
                    await self.watch(writer, query)
                    return
                body = (
                    b'{"major":"1","minor":"35","gitVersion":"v1.35.0"}'
                    if target.path == "/version"
                    else self.page(query)
                )
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
                await writer.drain()

    async def watch(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        """Stream changes at the rate."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

        async def send(data: bytes) -> None:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()

        if query.get("sendInitialEvents"):
            for start in range(0, len(self.typed), 50):
                end = min(start + 50, len(self.typed))
                await send(b"".join(self.line("ADDED", n, n + 1) for n in range(start, end)))
            await send(
                b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
                b'{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
                % FIRST_VERSION
            )
        if self.rate == GONE:
            await send(
                b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,'
                b'"reason":"Expired"}}\n'
            )
            writer.close()
            return
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while True:
            due = int((loop.time() - began) * self.rate)
            for _ in range(min(due - sent, 100)):
                sent += 1
                await send(self.line("MODIFIED", sent % len(self.typed), FIRST_VERSION + sent))
            await asyncio.sleep(0.005 if self.rate else 1.0)
            if writer.is_closing():
                return


async def main(number: int, rate: int) -> None:
    """Serve until killed."""
    server = Server(number, rate)
    # As Go's servers have it: with fewer, connections of 300 clusters at once are lost and repeated.
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=4096)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
