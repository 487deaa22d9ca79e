"""The webhook configurations and policies that send requests to us; pure.

Which requests come here is part of the security of the platform, and of its liveness: a webhook
that is down must stop tenants, never the cluster. So nodes, leases, kube-system and our own
namespace are outside of all rules, and kube-system's controllers may finish what they began.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from typing import Any
from urllib import parse

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.api.tenantry import resources as tenantry
from tenantry.apps import match_conditions, node_hook
from tenantry.directory import identity

Object = dict[str, Any]

NAME = "tenantry"
SERVICE = "capsule-webhook-service"
MUTATE = "/mutate"
VALIDATE = "/validate"
#: Where Capsule has it, too.
CONVERT = "/convert"

#: Where Capsule's own configurations send the same questions.
UPSTREAM_MUTATING = (
    "/namespaces/mutating", "/tenants/mutating", "/defaults",
    "/persistentvolumeclaims/mutating", "/rules/generic/mutating",
)  # fmt: skip
UPSTREAM_VALIDATING = (
    "/namespaces/validating", "/tenants/validating", "/tenantowners/validating",
    "/config/validating", "/generic/cordoning", "/generic/managed", "/serviceaccounts/validating",
    "/pods/validating", "/persistentvolumeclaims/validating", "/devices/validating",
    "/services/validating", "/ingresses/validating", "/gateways/validating",
    "/rules/generic/validating", "/rulestatus/validating", "/nodes/validating",
)  # fmt: skip

#: Configurations of Capsule 0.11; later charts call both `<release>-dynamic-webhook`.
UPSTREAM_NAMES = (
    "capsule-mutating-webhook-configuration",
    "capsule-validating-webhook-configuration",
)

#: Webhooks that follow rules of tenants and the configuration, so no repository can have them.
FOLLOWING = frozenset(
    f"{name}.tenantry.io"
    for name in ("metadata.mutating", "metadata.validating", "nodes.validating")
)

#: Of hooks whose verdicts are told as events, except on a dry run.
_EVENTS = "NoneOnDryRun"


def endpoint(url: str, namespace: str, ca: bytes) -> Object:
    """Return the clientConfig without a path: an address, or the Service in our namespace."""
    bundle = base64.b64encode(ca).decode()
    if url:
        return {"url": url.rstrip("/"), "caBundle": bundle}
    service = {"namespace": namespace, "name": SERVICE, "port": 443}
    return {"service": service, "caBundle": bundle}


def server_names(url: str, namespace: str) -> list[str]:
    """Return what the serving certificate must name for `endpoint` to be trusted."""
    if url:
        return [parse.urlsplit(url).hostname or ""]
    return [f"{SERVICE}.{namespace}.svc", f"{SERVICE}.{namespace}.svc.cluster.local"]


def configurations(
    client: Object,
    namespace: str,
    controllers: Collection[str],
    labelling: Collection[str] = (),
    *,
    nodes: bool = False,
    mutating: Object | None = None,
) -> list[tuple[resources.Resource, Object]]:
    """Return both webhook configurations.

    :param client: what `endpoint` returned
    :param namespace: the platform's own
    :param controllers: user names of the platform itself, whose writes are not asked about
    :param labelling: tenants with rules about labels of any kind
    :param nodes: the configuration keeps metadata of nodes from users
    :param mutating: what leads to the mutating ones, where that differs
    """
    names = ", ".join(f"'{name}'" for name in sorted(controllers))
    ours = {
        "name": "not-the-platform-itself",
        "expression": f"!(request.userInfo.username in [{names}])",
    }
    return [
        (
            resources.VALIDATING_WEBHOOKS,
            _configuration(
                "Validating",
                [
                    *_validating(namespace),
                    *_labels(namespace, labelling),
                    *([node_hook.HOOK] if nodes else []),
                ],
                client,
                ours,
            ),
        ),
        (
            resources.MUTATING_WEBHOOKS,
            _configuration(
                "Mutating",
                [
                    *_mutating(namespace),
                    *(
                        {**hook, "reinvocationPolicy": "IfNeeded"}
                        for hook in _labels(namespace, labelling)
                    ),
                ],
                mutating or client,
                ours,
            ),
        ),
    ]


def conversion(client: Object) -> Object:
    """Return how Tenants are converted, for the definition of the kind."""
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": _at(client, CONVERT), "conversionReviewVersions": ["v1"]},
    }


def _configuration(kind: str, hooks: Sequence[Object], client: Object, ours: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {
            "name": NAME,
            "labels": {constants.CREATED_BY_LABEL: constants.CREATED_BY_CONTROLLER},
        },
        "webhooks": [
            {
                "clientConfig": _at(client, MUTATE if kind == "Mutating" else VALIDATE),
                "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "timeoutSeconds": 10,
                **hook,
                "matchConditions": [ours, *hook.get("matchConditions", ())],
                "name": f"{hook['name']}.{kind.lower()}.tenantry.io",
            }
            for hook in hooks
        ],
    }


def _at(client: Object, path: str) -> Object:
    if "url" in client:
        return {**client, "url": client["url"] + path}
    service = client["service"]
    prefix = service.get("path", "").rstrip("/")
    return {**client, "service": {**service, "path": prefix + path}}


def _rule(group: str, names: Sequence[str], operations: str, scope: str = "*") -> Object:
    verbs = {"C": "CREATE", "U": "UPDATE", "D": "DELETE"}
    return {
        "apiGroups": [group],
        # Of our own kinds we read one version; the API server converts what is sent in another.
        "apiVersions": [constants.VERSION if group == constants.GROUP else "*"],
        "operations": [verbs[letter] for letter in operations],
        "resources": list(names),
        "scope": scope,
    }


#: What policy is about whatever a tenant says, besides the namespaces themselves. Subresources that
#: change what a pod runs are changes like any other; its status and binding are not.
_CONTENT = (
    ("", ("pods", "pods/ephemeralcontainers", "pods/resize", "persistentvolumeclaims", "services")),
    # Their controller decides by the template on which nodes there shall be a pod.
    ("apps", ("daemonsets",)),
    ("networking.k8s.io", ("ingresses",)),
    ("gateway.networking.k8s.io",
     ("gateways", "grpcroutes", "httproutes", "listenersets", "tlsroutes")),
    ("gateway.networking.x-k8s.io", ("xlistenersets",)),
    ("route.openshift.io", ("routes",)),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
)  # fmt: skip
_NOT_CONTENT: Object = {
    "name": "not-asked-about-anyway",
    "expression": "!("
    + " || ".join(
        f"(request.resource.group == '{group}' && "
        f"request.resource.resource in {[name for name in names if '/' not in name]})"
        for group, names in _CONTENT
    )
    + ")",
}


def _labels(namespace: str, tenants: Collection[str]) -> list[Object]:
    """Return the hook for labels of anything, for the tenants that have rules about them.

    Others go on without it, also while webhooks are down.
    """
    if not tenants:
        return []
    selector = match_conditions.elsewhere(namespace)
    chosen = {"key": constants.TENANT_LABEL, "operator": "In", "values": sorted(tenants)}
    return [
        {
            **_content(namespace),
            "name": "metadata",
            "rules": [_rule("*", ["*"], "CU", "Namespaced")],
            "namespaceSelector": {"matchExpressions": [chosen, *selector["matchExpressions"]]},
            "matchConditions": [
                match_conditions.NOT_NOISE, _NOT_CONTENT, match_conditions.NOT_KUBE_SYSTEM_UNLESS_CREATING, match_conditions.NOT_NODES,
            ],
        }
    ]  # fmt: skip


def _content(namespace: str) -> Object:
    """Return the hook for what lies inside tenants' namespaces, the same on both sides.

    Controllers of the cluster create for others (pods of a ReplicaSet, claims of a StatefulSet),
    so their creations are asked about; what they change afterwards, besides the volume of a claim,
    is not, and neither are nodes.
    """
    return {
        "name": "content",
        "rules": [_rule(group, names, "CU", "Namespaced") for group, names in _CONTENT],
        "namespaceSelector": match_conditions.of_tenants(namespace),
        "matchConditions": [
            match_conditions.NOT_KUBE_SYSTEM_UNLESS_BINDING,
            match_conditions.NOT_NODES,
        ],
        # Audit rules are told as events.
        "sideEffects": _EVENTS,
    }


def _mutating(namespace: str) -> list[Object]:
    return [
        {
            "name": "namespaces",
            "rules": [_rule("", ["namespaces"], "CU", "Cluster")],
            "matchConditions": [
                match_conditions.NOT_KUBE_SYSTEM,
                match_conditions.not_vital(namespace),
            ],
            "sideEffects": _EVENTS,
            # What others change after us is put right before it is judged.
            "reinvocationPolicy": "IfNeeded",
        },
        {
            "name": "tenants",
            "rules": [_rule(constants.GROUP, [capsule.TENANTS.plural], "CU", "Cluster")],
            "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded",
        },
        {**_content(namespace), "reinvocationPolicy": "IfNeeded"},
    ]


def _validating(namespace: str) -> list[Object]:
    elsewhere, tenants = (
        match_conditions.elsewhere(namespace),
        match_conditions.of_tenants(namespace),
    )
    kinds = [capsule.TENANTS.plural, capsule.TENANT_OWNERS.plural]
    promoted = " || ".join(
        f"({obj} != null && has({obj}.metadata.labels) && '{label}' in {obj}.metadata.labels)"
        for obj in ("object", "oldObject")
        for label in (constants.PROMOTE_OWNER_LABEL, constants.PROMOTE_LABEL)
    )
    return [
        {
            "name": "namespaces",
            "rules": [
                _rule(
                    "", ["namespaces", "namespaces/status", "namespaces/finalize"], "CUD", "Cluster"
                )
            ],
            "matchConditions": [
                match_conditions.NOT_KUBE_SYSTEM,
                match_conditions.not_vital(namespace),
            ],
            # Besides, the quota's ledger is written.
            "sideEffects": _EVENTS,
        },
        {
            "name": "tenants",
            "rules": [_rule(constants.GROUP, kinds, "CUD", "Cluster")],
            "sideEffects": "None",
        },
        {
            "name": "rulestatuses",
            "rules": [_rule(constants.GROUP, [capsule.RULE_STATUSES.plural], "CU", "Namespaced")],
            "namespaceSelector": tenants,
            "matchConditions": [
                match_conditions.NOT_KUBE_SYSTEM_UNLESS_CREATING,
                match_conditions.NOT_NODES,
            ],
            "sideEffects": "None",
        },
        {
            "name": "configuration",
            "rules": [_rule(constants.GROUP, [capsule.CONFIGURATIONS.plural], "CU", "Cluster")],
            "sideEffects": "None",
            # A broken webhook must not keep the configuration from being repaired.
            "failurePolicy": "Ignore",
        },
        {
            "name": "cordoning",
            "rules": [_rule("*", ["*/*"], "CUD", "Namespaced")],
            "namespaceSelector": {
                "matchLabels": {constants.CORDONED_LABEL: constants.TRUE},
                **elsewhere,
            },
            "matchConditions": [match_conditions.NOT_KUBE_SYSTEM, match_conditions.NOT_NODES],
            "sideEffects": _EVENTS,
        },
        {
            "name": "managed",
            "rules": [_rule("*", ["*/*"], "CUD", "Namespaced")],
            "namespaceSelector": elsewhere,
            "objectSelector": {
                "matchLabels": {constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER}
            },
            # A pod template may carry the label too; what the cluster makes of it is asked about,
            # or a tenant had pods that nobody could evict.
            "matchConditions": [
                match_conditions.NOT_KUBE_SYSTEM_UNLESS_CREATING,
                match_conditions.NOT_NODES,
            ],
            "sideEffects": "None",
        },
        {
            # The namespace controller deletes everything at once. RoleBindings wait for the rest,
            # or owners could not remove what blocks the deletion.
            "name": "retention",
            "rules": [_rule("rbac.authorization.k8s.io", ["rolebindings"], "D", "Namespaced")],
            "namespaceSelector": tenants,
            "objectSelector": {
                "matchLabels": {constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER}
            },
            "matchConditions": [
                {
                    "name": "the-namespace-controller",
                    "expression": "request.userInfo.username in "
                    f"{list(identity.NAMESPACE_CONTROLLERS)}",
                }
            ],
            "sideEffects": "None",
            # While webhooks are down namespaces go as they do elsewhere.
            "failurePolicy": "Ignore",
        },
        {
            "name": "serviceaccounts",
            "rules": [_rule("", ["serviceaccounts"], "CU", "Namespaced")],
            "namespaceSelector": tenants,
            "matchConditions": [{"name": "promotion", "expression": promoted}],
            "sideEffects": _EVENTS,
        },
        _content(namespace),
        {
            # Who can bind pods goes past the scheduler; the scheduler itself need not wait for us.
            "name": "bindings",
            "rules": [_rule("", ["pods/binding", "bindings"], "C", "Namespaced")],
            "namespaceSelector": tenants,
            "matchConditions": [
                {
                    "name": "not-the-scheduler",
                    "expression": "request.userInfo.username != 'system:kube-scheduler'",
                },
                match_conditions.NOT_KUBE_SYSTEM,
            ],
            "sideEffects": "None",
        },
        {
            "name": "nodepools",
            "rules": [
                _rule(tenantry.NODE_POOLS.group, [tenantry.NODE_POOLS.plural], "CU", "Cluster")
            ],
            "sideEffects": "None",
        },
    ]
