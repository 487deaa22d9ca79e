from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api.capsule import proxy_settings
from tenantry.gateway import settings_status


def setting(selector: dict[str, Any], **more: Any) -> proxy_settings.GlobalProxySettings:
    resource = {"apiGroups": [""], "resources": ["nodes"], "selector": selector}
    rule = {"subjects": [{"kind": "User", "name": "a"}], "clusterResources": [resource]}
    found = {"metadata": {"name": "g", "generation": 3}, "spec": {"rules": [rule]}, **more}
    return msgspec.convert(found, proxy_settings.GlobalProxySettings)


def test_what_is_followed_is_ready() -> None:
    status = settings_status.wanted(setting({"matchLabels": {"a": "b"}}), 0.0)
    (condition,) = status.conditions
    assert (condition.type, condition.status) == ("Ready", "True")
    assert (condition.reason, condition.message) == ("Succeeded", "reconciled")
    assert status.observed_generation == condition.observed_generation == 3


def test_nothing_is_due_twice() -> None:
    first = settings_status.wanted(setting({"matchLabels": {"a": "b"}}), 0.0)
    found = setting({"matchLabels": {"a": "b"}}, status=msgspec.to_builtins(first))
    assert settings_status.wanted(found, 99.0) == found.status


def test_a_selector_that_means_nothing_is_said_so() -> None:
    expression = {"key": "a", "operator": "Nonsense"}
    status = settings_status.wanted(setting({"matchExpressions": [expression]}), 0.0)
    (condition,) = status.conditions
    assert (condition.status, condition.reason) == ("False", "Failed")
    assert "spec.rules[0].clusterResources[0].selector" in condition.message
