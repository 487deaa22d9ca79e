"""The simulated nodes of a platform, as data. kwok makes them and their pods look alive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tenantry.core import errors as core_errors
from tenantry.core import names, yamls
from tenantry.local import errors

DEFAULT_COUNT = 3
MAXIMUM = 5000
#: Marks the nodes that a platform's plan made, and may remove.
LABEL = "local.tenantry.io/node"
GPU = "nvidia.com/gpu"
_SIZE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
#: Labels that GPU feature discovery puts on a machine with these devices.
_GPU_LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
}


def wanted(text: str, gpus: int) -> tuple[dict[str, Any], ...]:
    """Read `--nodes` (a count, or a file with Node objects) and `--gpus-per-node`."""
    if text.removeprefix("-").isdigit():
        return generated(int(text), gpus)
    if gpus:
        raise core_errors.InvalidValueError(
            "gpus-per-node", gpus, f"only with a count of nodes; {text} tells the capacity itself"
        )
    return read(Path(text))


def generated(count: int, gpus: int) -> tuple[dict[str, Any], ...]:
    """Make equal nodes: node-1, node-2 and so on."""
    if not 0 <= count <= MAXIMUM:
        raise core_errors.InvalidValueError("nodes", count, f"0 to {MAXIMUM} nodes, or a file")
    if not 0 <= gpus <= 64:
        raise core_errors.InvalidValueError("gpus-per-node", gpus, "0 to 64")
    capacity = _SIZE | ({GPU: str(gpus)} if gpus else {})
    labels = {**_GPU_LABELS, "nvidia.com/gpu.count": str(gpus)} if gpus else {}
    return tuple(
        completed(
            {"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"capacity": capacity}}
        )
        for i in range(1, count + 1)
    )


def read(path: Path) -> tuple[dict[str, Any], ...]:
    """Read Node objects from a YAML or JSON file, or a List of them."""
    import yaml

    try:
        documents = yamls.read(path.read_text())
    except OSError as err:
        raise errors.LocalError(
            f"cannot read nodes from {path}: {err.strerror}; nodes are a file of them, or their number"
        ) from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise errors.LocalError(f"cannot read nodes from {path}: {yamls.problem(err)}") from err
    found = tuple(completed(item) for item in _items(documents, str(path)))
    given = [node["metadata"]["name"] for node in found]
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise core_errors.InvalidValueError("metadata.name", twice[0], "one node per name")
    if len(found) > MAXIMUM:
        raise core_errors.InvalidValueError("nodes", len(found), f"at most {MAXIMUM} nodes")
    return found


def completed(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node as it is applied: the usual size where none is given, and our label."""
    metadata = node.get("metadata") or {}
    status = node.get("status") or {}
    name = metadata.get("name")
    if not isinstance(name, str) or not names.is_dns_subdomain(name):
        raise core_errors.InvalidValueError("metadata.name", name, "a node's name, as in DNS")
    capacity = {**_SIZE, **_quantities("capacity", status)}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **(metadata.get("labels") or {}),
        LABEL: "",
    }
    kept: dict[str, Any] = {"name": name, "labels": labels}
    if metadata.get("annotations"):
        kept["annotations"] = dict(metadata["annotations"])
    described: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": kept,
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, **_quantities("allocatable", status)},
        },
    }
    if node.get("spec"):
        described["spec"] = dict(node["spec"])
    return described


def _quantities(field: str, status: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in (status.get(field) or {}).items()}


def _items(documents: Sequence[Any], where: str) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if document is None:
            continue
        kind = document.get("kind") if isinstance(document, dict) else type(document).__name__
        if kind == "Node":
            yield document
        elif kind in {"List", "NodeList"}:
            yield from _items(document.get("items") or [], where)
        else:
            raise core_errors.InvalidValueError(
                where, kind, "objects of kind Node, or a List of them"
            )
