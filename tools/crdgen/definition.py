"""CustomResourceDefinitions around the schemas."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from tools.crdgen import structural, walker

from tenantry.api import resources


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """One version of a kind; exactly one version of each kind is stored."""

    name: str
    struct: type[msgspec.Struct]
    columns: tuple[Column, ...]
    stored: bool = True
    served: bool = True
    #: Restrictions on `metadata.name`, for names that become labels or parts of other names.
    name_facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind and all that its definition says."""

    resource: resources.Resource
    short_names: tuple[str, ...] = ()
    versions: tuple[Version, ...]
    #: `spec.conversion`, once a kind is served in several versions that differ.
    conversion: dict[str, Any] | None = None


class NotStructuralError(ValueError):
    """Raised when a schema breaks the rules of structural schemas."""

    def __init__(self, name: str, problems: list[str]) -> None:
        super().__init__(f"{name}: " + "; ".join(problems))


def crd(kind: Kind) -> dict[str, Any]:
    """Build the definition of a kind.

    :raises NotStructuralError: when the API server would refuse a schema
    """
    place = kind.resource
    names: dict[str, Any] = {
        "kind": place.kind,
        "listKind": f"{place.kind}List",
        "plural": place.plural,
        "singular": place.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    spec: dict[str, Any] = {
        "group": place.group,
        "names": names,
        "scope": "Namespaced" if place.namespaced else "Cluster",
        "versions": [_version(place.group_resource, version) for version in kind.versions],
    }
    if kind.conversion is not None:
        spec["conversion"] = kind.conversion
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": place.group_resource},
        "spec": spec,
    }


def _version(name: str, version: Version) -> dict[str, Any]:
    root = _root(version)
    found = structural.problems(root)
    if found:
        raise NotStructuralError(f"{name} {version.name}", found)
    return {
        "name": version.name,
        "served": version.served,
        "storage": version.stored,
        "additionalPrinterColumns": [
            {
                "name": column.name,
                "type": column.type,
                "description": column.description,
                "jsonPath": column.path,
            }
            for column in version.columns
        ],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": root},
    }


def _root(version: Version) -> dict[str, Any]:
    root = walker.struct(version.struct)
    metadata: dict[str, Any] = {"type": "object"}
    if version.name_facts:
        metadata["properties"] = {"name": {"type": "string", **version.name_facts}}
    # The API server writes the texts of these three itself.
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
    required = [name for name in root.get("required", []) if name != "metadata"]
    root = {**root, "properties": {**own, **root["properties"]}, "required": required}
    return {key: value for key, value in root.items() if key != "required" or value}
