"""Where each kind lives in the API: group, version, plural, scope, and the path of a request.

A `Resource` is the key by which the client, informers and caches name a kind. Kinds known only at
run time come from `kube.discovery`; the built-in ones that Tenantry uses are constants here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib import parse

import msgspec

from tenantry.core import errors


class Resource(msgspec.Struct, frozen=True, gc=False):
    """Name one served kind; hashable, equal by value."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Give `apiVersion` as objects write it: "v1" or "group/version"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """Give the name as RBAC and error messages write it: "pods", "tenants.capsule.clastix.io"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Build the percent-encoded request path; without `name`, of the collection.

        An empty `namespace` of a namespaced kind means the collection over all namespaces.

        :raises InvalidValueError: when a part would change the meaning of the path (empty where
            needed, ".", "..", or with "/"), or does not fit the kind's scope
        """
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace:
            if not self.namespaced:
                raise errors.InvalidValueError(
                    "namespace", namespace, f"{self.plural} are not namespaced"
                )
            parts += ["namespaces", _segment("namespace", namespace)]
        elif name and self.namespaced:
            raise errors.InvalidValueError(
                "namespace", "", f"a namespace is needed to name one of {self.plural}"
            )
        parts.append(self.plural)
        if name:
            parts.append(_segment("name", name))
        if subresource:
            if not name:
                raise errors.InvalidValueError("name", "", f"a name is needed for /{subresource}")
            # "proxy/metrics" and the like are paths below the object.
            parts += [_segment("subresource", part) for part in subresource.split("/")]
        return "/".join(parts)

    def path_of(self, obj: Mapping[str, Any], subresource: str = "") -> str:
        """Build the path of an object from its own metadata."""
        metadata = metadata_of(obj)
        name = metadata.get("name") or ""
        if not name:
            raise errors.InvalidValueError("metadata.name", name, "a name is needed")
        return self.path(metadata.get("namespace") or "", name, subresource)


def metadata_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give an object's metadata, empty when absent.

    :raises InvalidValueError: when it is no mapping
    """
    metadata = obj.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise errors.InvalidValueError("metadata", metadata, "must be an object")
    return metadata


def _segment(field: str, value: str) -> str:
    if value in {"", ".", ".."} or "/" in value or "%" in value:
        raise errors.InvalidValueError(
            field, value, "must be one path segment: not empty, '.', '..', nor with '/' or '%'"
        )
    return parse.quote(value, safe=":@!$&'()*+,;=~")


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
CORE_EVENTS = Resource("", "v1", "events", "Event")

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASSES = Resource(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
GATEWAY_CLASSES = Resource(
    "gateway.networking.k8s.io", "v1", "gatewayclasses", "GatewayClass", namespaced=False
)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False
)

CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)

# Reviews are created, never stored.
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
SELF_SUBJECT_RULES_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectrulesreviews",
    "SelfSubjectRulesReview",
    namespaced=False,
)
TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
