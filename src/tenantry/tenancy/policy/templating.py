"""Templates in rules: filled with the Tenant and the namespace they are for (specs/capsule 4.6)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from tenantry.api.capsule import constants, rules, tenant
from tenantry.core.templates import budget
from tenantry.core.templates import engine as templates
from tenantry.directory import state as directory
from tenantry.tenancy.policy import matching

FIELD = "template"
#: What all rules that hold in a namespace may use together: some hundredths of a second. Namespaces
#: are filled anew whenever their tenants relabel them, and reviews wait meanwhile.
LIMITS = budget.Limits(steps=30_000, made=1 << 17, output=1 << 17)


@functools.lru_cache(maxsize=2048)
def _compiled(text: str) -> templates.Template:
    return templates.compile(text, FIELD, missing_key="error")


def is_templated(rule: rules.Rule) -> bool:
    """Tell whether a rule has any string to fill."""
    return b"{{" in msgspec.json.encode((rule.audience, rule.enforce))


def renderer(owner: tenant.Tenant, view: directory.NamespaceView) -> matching.Render:
    """Return what fills the templates of a tenant's rules in one of its namespaces.

    A key that is missing is an error, and what the string was part of then refuses. So does every
    string after what is allowed to all of them is used up.
    """
    context = _context(owner, view)
    left = budget.Budget(LIMITS)

    def render(text: str) -> str:
        if not templates.is_template(text):
            return text
        return _compiled(text).fill(context(), left)

    return render


def _context(owner: tenant.Tenant, view: directory.NamespaceView) -> Callable[[], dict[str, Any]]:
    @functools.cache
    def build() -> dict[str, Any]:
        found = msgspec.to_builtins(owner)
        found |= {"apiVersion": constants.API_VERSION, "kind": "Tenant"}
        found["rbac"] = {
            "owners": [
                {"kind": one.kind, "name": one.name, "clusterRoles": one.cluster_roles}
                for one in owner.status.owners
            ]
        }
        namespace = msgspec.json.decode(view.raw) if view.raw else {"metadata": {"name": view.name}}
        return {"tenant": found, "namespace": namespace}

    return build
