"""Schemas of core types, as far as a manifest can be judged without knowing the cluster.

Nothing is required or enumerated here that the API server does not require or enumerate too.
"""

from __future__ import annotations

from typing import Any

from tenantry.api import schema

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_STRING_MAP = {"type": "object", "additionalProperties": _STRING}
_QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": schema.QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
_QUANTITIES = {"type": "object", "additionalProperties": _QUANTITY}


def _said(description: str, node: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, **node}


def _object(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "object", "properties": properties}
    return {**node, "required": list(required)} if required else node


def _array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


_REQUIREMENTS = _array(
    _object(
        ("key", "operator"),
        key=_said("Label key.", _STRING),
        operator=_said(
            "How values are compared.",
            {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
        ),
        values=_said("Values for `In` and `NotIn`.", _STRINGS),
    )
)

_LABEL_SELECTOR = {
    **_object(
        matchLabels=_said("Labels that must all be present.", _STRING_MAP),
        matchExpressions=_said("Requirements that must all hold.", _REQUIREMENTS),
    ),
    "x-kubernetes-map-type": "atomic",
}

_SCOPE_SELECTOR = {
    **_object(
        matchExpressions=_said(
            "Expressions that must all hold.",
            _array(
                _object(
                    ("scopeName", "operator"),
                    scopeName=_said("Scope, e.g. `PriorityClass`.", _STRING),
                    operator=_said("`In`, `NotIn`, `Exists` or `DoesNotExist`.", _STRING),
                    values=_said("Values for `In` and `NotIn`.", _STRINGS),
                )
            ),
        )
    ),
    "x-kubernetes-map-type": "atomic",
}

_LIMIT_RANGE_ITEM = _object(
    ("type",),
    type=_said("What the limits are for: `Container`, `Pod`, `PersistentVolumeClaim`.", _STRING),
    default=_said("Limit of what sets none, by resource.", _QUANTITIES),
    defaultRequest=_said("Request of what sets none, by resource.", _QUANTITIES),
    max=_said("Most, by resource.", _QUANTITIES),
    min=_said("Least, by resource.", _QUANTITIES),
    maxLimitRequestRatio=_said("Most that limit divided by request may be.", _QUANTITIES),
)

_PORTS = _array(
    _object(
        protocol=_said("`TCP`, `UDP` or `SCTP`. Default: `TCP`.", _STRING),
        port=_said(
            "Port number or name. Default: all.",
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            },
        ),
        endPort=_said(
            "Last port of a range that begins at `port`.", {"type": "integer", "format": "int32"}
        ),
    )
)

_PEERS = _array(
    _object(
        podSelector=_said("Pods, here or in the selected namespaces.", _LABEL_SELECTOR),
        namespaceSelector=_said("Namespaces.", _LABEL_SELECTOR),
        ipBlock=_said(
            "Addresses outside the cluster.",
            _object(
                ("cidr",),
                cidr=_said("Network, e.g. `192.168.0.0/16`.", _STRING),
                **{"except": _said("Networks in it that are left out.", _STRINGS)},
            ),
        ),
    )
)

_CONDITION = _object(
    ("type", "status", "lastTransitionTime", "reason", "message"),
    type=_said(
        "Aspect, e.g. `Ready`.",
        {
            "type": "string",
            "maxLength": 316,
            "pattern": (
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        },
    ),
    status=_said("Whether it holds.", {"type": "string", "enum": ["True", "False", "Unknown"]}),
    observedGeneration=_said(
        "Generation that the condition is about.",
        {"type": "integer", "format": "int64", "minimum": 0},
    ),
    lastTransitionTime=_said(
        "When the status last changed.", {"type": "string", "format": "date-time"}
    ),
    reason=_said(
        "Why, in one word.",
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
    ),
    message=_said("Why, for people.", {"type": "string", "maxLength": 32768}),
)

_SUBJECT = {
    **_object(
        ("kind", "name"),
        kind=_said("`User`, `Group` or `ServiceAccount`.", _STRING),
        apiGroup=_said("`rbac.authorization.k8s.io` for users and groups, else empty.", _STRING),
        name=_said("Name of the subject.", _STRING),
        namespace=_said("Namespace of a ServiceAccount.", _STRING),
    ),
    "x-kubernetes-map-type": "atomic",
}

#: By the name in `schema.Core`.
SCHEMAS: dict[str, dict[str, Any]] = {
    "LabelSelector": _LABEL_SELECTOR,
    "LabelSelectorRequirements": _REQUIREMENTS,
    "ScopeSelector": _SCOPE_SELECTOR,
    "ResourceQuotaSpec": _object(
        hard=_said("Most that may be used, by resource.", _QUANTITIES),
        scopes=_said("Count only objects in all of these scopes.", _STRINGS),
        scopeSelector=_said("Count only objects that match.", _SCOPE_SELECTOR),
    ),
    "LimitRangeSpec": _object(
        ("limits",), limits=_said("Limits by type of object.", _array(_LIMIT_RANGE_ITEM))
    ),
    "NetworkPolicySpec": _object(
        podSelector=_said("Pods that the policy is for; `{}` selects all.", _LABEL_SELECTOR),
        policyTypes=_said("`Ingress`, `Egress` or both.", _STRINGS),
        ingress=_said(
            "Traffic let in; nothing else is.",
            _array(
                _object(
                    **{"from": _said("Where it comes from. Default: anywhere.", _PEERS)},
                    ports=_said("Ports it goes to. Default: all.", _PORTS),
                )
            ),
        ),
        egress=_said(
            "Traffic let out; nothing else is.",
            _array(
                _object(
                    to=_said("Where it goes. Default: anywhere.", _PEERS),
                    ports=_said("Ports it goes to. Default: all.", _PORTS),
                )
            ),
        ),
    ),
    "Subjects": _array(_SUBJECT),
    "Conditions": _array(
        _CONDITION,
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
    "WebhookRules": _array(
        _object(
            apiGroups=_said("API groups; `*` is all.", _STRINGS),
            apiVersions=_said("API versions; `*` is all.", _STRINGS),
            operations=_said("`CREATE`, `UPDATE`, `DELETE`, `CONNECT` or `*`.", _STRINGS),
            resources=_said("Resources, e.g. `pods`, `pods/*`.", _STRINGS),
            scope=_said("`Cluster`, `Namespaced` or `*`. Default: `*`.", _STRING),
        )
    ),
    "MatchConditions": _array(
        _object(
            ("name", "expression"),
            name=_said("Name of the condition.", _STRING),
            expression=_said("CEL expression over the request.", _STRING),
        ),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
}
