"""All that an existing cluster needs to run the roles, as manifests; pure.

The API kinds and the service accounts with their rights come from elsewhere (`deploy/`,
`apps.permissions`); here are the workloads around them. Addresses are those of the pod, so that the
same manifests do in clusters of either address family.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants
from tenantry.apps import hooks, permissions, settings
from tenantry.core import errors, names
from tenantry.tenancy.policy import images

Object = dict[str, Any]

PROBES = 8081
WEBHOOKS = 9443
#: Capsule Proxy's.
GATEWAY = 9001
REPLICAS = 20

#: Of the workloads of an installation, and of their pods.
LABELS = {"app.kubernetes.io/part-of": "tenantry"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
_LABEL = "app.kubernetes.io/name"
#: Any id but root's; the image brings the same.
_USER = 65532
_CERTIFICATES = "/etc/tenantry/tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an installation is told."""

    image: str
    """reference of the image with this package"""
    namespace: str = constants.CONTROLLER_NAMESPACE
    replicas: int = 2
    """of each Deployment"""
    gateway_secret: str = ""
    """Secret (kubernetes.io/tls) with the gateway's certificate; empty = no gateway"""


def manifests(options: Options, kinds: list[Object], *, registered: bool = True) -> list[Object]:
    """Return all objects, in the order to create them.

    :param kinds: definitions of the API kinds
    :param registered: the webhook configurations are among them, last; without, the webhook role
        writes its own as soon as it serves
    :raises InvalidValueError: for an option that no API server would take
    """
    _check(options)
    namespace, *roles = permissions.manifests(options.namespace)
    objects = [namespace, *kinds, *roles, _metrics(options.namespace)]
    for role in _roles(options):
        objects += role
    if registered:
        objects += _registrations(options.namespace)
    return objects


def _check(options: Options) -> None:
    for field, name in (
        ("namespace", options.namespace),
        ("gateway-secret", options.gateway_secret),
    ):
        if name and not names.is_dns_label(name):
            raise errors.InvalidValueError(
                field, name, "must be at most 63 lower-case letters, digits and '-'"
            )
    if not options.namespace:
        raise errors.InvalidValueError("namespace", "", "must not be empty")
    if not 1 <= options.replicas <= REPLICAS:
        raise errors.InvalidValueError("replicas", options.replicas, f"must be 1 to {REPLICAS}")
    images.parse(options.image)


def _roles(options: Options) -> list[list[Object]]:
    """Return for each role its Service, if it has one, its disruption budget and its Deployment."""
    space = options.namespace
    controller = _deployment(
        options, "controller", constants.CONTROLLER_SERVICE_ACCOUNT, {}, ["--log-format=json"]
    )
    webhook = _deployment(
        options,
        "webhook",
        settings.WEBHOOK_SERVICE_ACCOUNT,
        {"https": WEBHOOKS},
        [f"--webhook=$(POD_IP):{WEBHOOKS}", "--log-format=json"],
    )
    found = [
        [_budget("controller", space), controller],
        [
            _service(hooks.SERVICE, "webhook", space, {"https": (443, "https")}),
            _budget("webhook", space),
            webhook,
        ],
    ]
    if options.gateway_secret:
        found.append(
            [
                _service("tenantry-gateway", "gateway", space, {"https": (GATEWAY, "https")}),
                _budget("gateway", space),
                _gateway(options),
            ]
        )
    return found


def _gateway(options: Options) -> Object:
    made = _deployment(
        options,
        "gateway",
        settings.GATEWAY_SERVICE_ACCOUNT,
        {"https": GATEWAY},
        [
            "--bind=$(POD_IP)",
            f"--listening-port={GATEWAY}",
            f"--ssl-cert-path={_CERTIFICATES}/tls.crt",
            f"--ssl-key-path={_CERTIFICATES}/tls.key",
            "--log-format=json",
        ],
    )
    spec = made["spec"]["template"]["spec"]
    secret = {"secretName": options.gateway_secret, "defaultMode": 0o440}
    spec["volumes"].append({"name": "tls", "secret": secret})
    spec["containers"][0]["volumeMounts"].append(
        {"name": "tls", "mountPath": _CERTIFICATES, "readOnly": True}
    )
    return made


def _deployment(
    options: Options, role: str, account: str, ports: dict[str, int], args: list[str]
) -> Object:
    name, labels = f"tenantry-{role}", {_LABEL: f"tenantry-{role}"}
    container = {
        "name": role,
        "image": options.image,
        "args": [
            role,
            f"--namespace={options.namespace}",
            f"--probes=$(POD_IP):{PROBES}",
            *args,
        ],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in {"probes": PROBES, **ports}.items()
        ],
        "startupProbe": _probe("/healthz", periodSeconds=2, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
        # A replica that drains says so, and no new connections reach it.
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=1),
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 (of the container)
    }
    pod = {
        "serviceAccountName": account,
        "priorityClassName": "system-cluster-critical",
        # Webhooks serve on while API servers still send, and watches end in peace.
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": labels},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            }
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return _object("apps/v1", "Deployment", name, options.namespace) | {
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": labels},
            # One that is new stands before one that is old goes.
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": {**labels, **LABELS}}, "spec": pod},
        }
    }


def _probe(path: str, **more: int) -> Object:
    return {"httpGet": {"path": path, "port": "probes"}, "timeoutSeconds": 2, **more}


def _service(name: str, role: str, namespace: str, ports: dict[str, tuple[int, str]]) -> Object:
    """Return the Service of a role; ports by name, as its own and the container's."""
    return _object("v1", "Service", name, namespace) | {
        "spec": {
            "selector": {_LABEL: f"tenantry-{role}"},
            "ports": [
                {"name": called, "port": port, "targetPort": target}
                for called, (port, target) in ports.items()
            ],
        }
    }


def _metrics(namespace: str) -> Object:
    """Return what scrapers find all roles' metrics by."""
    return _object("v1", "Service", "tenantry-metrics", namespace) | {
        "spec": {
            "clusterIP": "None",
            "selector": LABELS,
            "ports": [{"name": "metrics", "port": PROBES, "targetPort": "probes"}],
        }
    }


def _budget(role: str, namespace: str) -> Object:
    return _object("policy/v1", "PodDisruptionBudget", f"tenantry-{role}", namespace) | {
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {_LABEL: f"tenantry-{role}"}},
        }
    }


def _registrations(namespace: str) -> list[Object]:
    """Return the webhook configurations without caBundle, which the webhook role writes in."""
    client = hooks.endpoint("", namespace, b"")
    del client["caBundle"]
    controllers = settings.Settings(namespace=namespace).controllers
    return [made for _, made in hooks.configurations(client, namespace, controllers)]


def _object(version: str, kind: str, name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": dict(LABELS)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
