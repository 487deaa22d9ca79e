"""What the command line decides from one look at a cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.apps import pooling
from tenantry.directory import state as directory
from tenantry.nodes import daemonsets


def namespace(name: str, **metadata: Any) -> directory.NamespaceView:
    return directory.namespace_view(msgspec.json.encode({"metadata": {"name": name, **metadata}}))


def test_platform_namespaces_whose_selector_keeps_daemon_sets_waiting() -> None:
    key = "scheduler.alpha.kubernetes.io/node-selector"
    found = [
        namespace("bad", annotations={key: "a=b"}),
        namespace("empty", annotations={key: ""}),
        namespace("none"),
        namespace("without-sets", annotations={key: "a=b"}),
    ]
    sets = [
        daemonsets.view(
            msgspec.json.encode({"metadata": {"namespace": one, "name": "d"}, "spec": {}})
        )
        for one in ("bad", "empty", "none")
    ]
    snapshot = pooling.Snapshot(
        nodes=[], pools=[], daemon_sets=sets, namespaces={one.name: one for one in found}
    )
    assert snapshot.annotated() == ["bad"]
