from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.core import errors

TENANTS = resources.Resource("capsule.clastix.io", "v1beta2", "tenants", "Tenant", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        (resources.PODS, (), "/api/v1/pods"),
        (resources.PODS, ("shop",), "/api/v1/namespaces/shop/pods"),
        (resources.PODS, ("shop", "web"), "/api/v1/namespaces/shop/pods/web"),
        (resources.PODS, ("shop", "web", "log"), "/api/v1/namespaces/shop/pods/web/log"),
        (
            resources.SERVICES,
            ("shop", "web", "proxy/metrics"),
            "/api/v1/namespaces/shop/services/web/proxy/metrics",
        ),
        (resources.NAMESPACES, ("", "shop"), "/api/v1/namespaces/shop"),
        (TENANTS, ("", "oil", "status"), "/apis/capsule.clastix.io/v1beta2/tenants/oil/status"),
        (
            resources.CLUSTER_ROLES,
            ("", "system:a b#?"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%23%3F",
        ),
    ],
)
def test_path(resource: resources.Resource, parts: tuple[str, ...], path: str) -> None:
    assert resource.path(*parts) == path


@pytest.mark.parametrize(
    ("resource", "parts", "message"),
    [
        (resources.PODS, ("", "web"), "a namespace is needed"),
        (resources.PODS, ("shop", "", "log"), "a name is needed"),
        (TENANTS, ("shop",), "not namespaced"),
        (resources.PODS, ("..", "web"), "one path segment"),
        (resources.PODS, ("shop", "."), "one path segment"),
        (resources.PODS, ("shop", "a/../b"), "one path segment"),
        (resources.PODS, ("shop", "a%2fb"), "one path segment"),
        (resources.PODS, ("shop", "web", "../log"), "one path segment"),
    ],
)
def test_path_refuses_what_would_lead_elsewhere(
    resource: resources.Resource, parts: tuple[str, ...], message: str
) -> None:
    with pytest.raises(errors.InvalidValueError, match=message):
        resource.path(*parts)


def test_path_of_reads_the_metadata() -> None:
    pod = {"metadata": {"name": "web", "namespace": "shop"}}
    assert resources.PODS.path_of(pod, "status") == "/api/v1/namespaces/shop/pods/web/status"
    broken_ones: list[dict[str, object]] = [{}, {"metadata": {}}, {"metadata": "text"}]
    for broken in broken_ones:
        with pytest.raises(errors.InvalidValueError, match="metadata"):
            resources.PODS.path_of(broken)


def test_names_of_a_kind() -> None:
    assert (resources.PODS.api_version, resources.PODS.group_resource) == ("v1", "pods")
    assert TENANTS.api_version == "capsule.clastix.io/v1beta2"
    assert TENANTS.group_resource == "tenants.capsule.clastix.io"


def test_equal_by_value_and_usable_as_key() -> None:
    again = resources.Resource("", "v1", "pods", "Pod")
    assert {resources.PODS: 1}[again] == 1
