"""The ValidatingAdmissionPolicy of namespaces, which holds even while webhooks are down; pure."""

from __future__ import annotations

from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.runtime import registration
from tenantry.tenancy import ownership

Object = dict[str, Any]

NAME = "tenantry-namespace-ownership"


def policies() -> list[tuple[resources.Resource, Object]]:
    """Return the ValidatingAdmissionPolicy that holds even while webhooks are down.

    It says what needs no knowledge of people: a namespace's label and ownerReference name the
    same tenant or neither exists. Who may move a namespace is the webhook's question.
    """
    label = f"'{constants.TENANT_LABEL}'"
    references = (
        "has(object.metadata.ownerReferences) ? object.metadata.ownerReferences.filter(r, "
        f"r.kind == 'Tenant' && r.apiVersion.startsWith('{constants.GROUP}/')) : []"
    )
    labelled = f"has(object.metadata.labels) && {label} in object.metadata.labels"
    owned_before = labelled.replace("object.", "oldObject.")
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
                        "scope": "Cluster",
                    }
                ]
            },
            # A namespace that was damaged before stays usable until somebody touches the damage.
            "matchConditions": [
                {
                    "name": "ownership-touched",
                    "expression": (
                        "oldObject == null || "
                        "(has(object.metadata.labels) ? object.metadata.labels : {}) != "
                        "(has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}) || "
                        "(has(object.metadata.ownerReferences) ? "
                        "object.metadata.ownerReferences : []) != "
                        "(has(oldObject.metadata.ownerReferences) ? "
                        "oldObject.metadata.ownerReferences : [])"
                    ),
                }
            ],
            "variables": [
                {"name": "references", "expression": references},
                {"name": "labelled", "expression": labelled},
                {"name": "owned", "expression": f"oldObject != null && ({owned_before})"},
            ],
            "validations": [
                {
                    "expression": (
                        "variables.labelled ? (size(variables.references) == 1 && "
                        f"variables.references[0].name == object.metadata.labels[{label}]) "
                        ": size(variables.references) == 0"
                    ),
                    "message": ownership.INCONSISTENT,
                    # The words of the webhook, which this comes before.
                    "messageExpression": (
                        f"oldObject == null ? '{ownership.ONLY_OWNERS}' : "
                        f"variables.owned ? '{ownership.INCOMPLETE}' : "
                        f"'{ownership.NOT_PATCHABLE_IN}'"
                    ),
                    "reason": "Forbidden",
                }
            ],
        },
    }
    return registration.denying(policy)
