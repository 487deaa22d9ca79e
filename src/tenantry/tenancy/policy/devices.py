"""Device classes that resource claims ask for, in every version of the API.

`resource.k8s.io/v1` and `v1beta2` put a class into ``exactly`` or into each of ``firstAvailable``;
`v1beta1` has the first directly in the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

GROUP = "resource.k8s.io"
CLAIMS = "resourceclaims"
TEMPLATES = "resourceclaimtemplates"
PLURALS = (CLAIMS, TEMPLATES)

Object = Mapping[str, Any]


def named(obj: Object) -> Iterator[tuple[str, str]]:
    """Yield the path and name of every class that a claim or a claim template asks for."""
    spec: Object = obj.get("spec") or {}
    prefix = "spec"
    if "devices" not in spec and "spec" in spec:  # a template holds the spec of a claim
        spec, prefix = spec.get("spec") or {}, "spec.spec"
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        path = f"{prefix}.devices.requests[{index}]"
        yield from _class(path, request)
        yield from _class(f"{path}.exactly", request.get("exactly") or {})
        for number, option in enumerate(request.get("firstAvailable") or ()):
            yield from _class(f"{path}.firstAvailable[{number}]", option)


def _class(path: str, request: Object) -> Iterator[tuple[str, str]]:
    name = request.get("deviceClassName")
    if name:
        yield f"{path}.deviceClassName", str(name)
