from __future__ import annotations

from tenantry.api import resources
from tenantry.runtime import permissions


def test_one_rule_per_resource_and_set_of_names_with_all_verbs_said() -> None:
    needs = [
        permissions.Need(resources.SECRETS, ("get",), names=("tls",), own=True),
        permissions.Need(resources.NAMESPACES, permissions.READ),
        permissions.Need(resources.NAMESPACES, permissions.APPLY),
        permissions.Need(resources.NAMESPACES, ("patch",), subresource="status"),
    ]
    everywhere, own = permissions.split(needs)
    assert permissions.rules(everywhere) == [
        {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "verbs": ["create", "list", "patch", "watch"],
        },
        {"apiGroups": [""], "resources": ["namespaces/status"], "verbs": ["patch"]},
    ]
    assert permissions.rules(own) == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tls"], "verbs": ["get"]}
    ]
