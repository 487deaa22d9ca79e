"""Correct the answer to "may I?" by what the gateway shows. Pure.

Clients such as k9s and Lens ask before they list, and hide what is denied. Only reads are ever
granted, and only those that `decide` serves.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.gateway import decide, grants, identity, paths

REASON = "granted by capsule-proxy"
_READS = frozenset(("get", "list", "watch"))
_LISTS = frozenset(("list", "watch"))


def corrected(body: bytes, who: identity.Identity, known: decide.Snapshot) -> bytes:
    """Return a review as it is true at the gateway; other bodies stay as they are."""
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return body
    given = known.given(who)
    if not given.user:
        return body
    if review.get("kind") == "SelfSubjectAccessReview":
        attributes = (review.get("spec") or {}).get("resourceAttributes")
        status = review.get("status") or {}
        if not attributes or status.get("allowed") or not _shown(attributes, who, given, known):
            return body
        review["status"] = {"allowed": True, "reason": REASON}
    elif review.get("kind") == "SelfSubjectRulesReview":
        status = review.setdefault("status", {})
        status["resourceRules"] = [*(status.get("resourceRules") or ()), *_rules(given)]
    else:
        return body
    return msgspec.json.encode(review)


def _shown(
    asked: dict[str, Any],
    who: identity.Identity,
    given: grants.Grants,
    known: decide.Snapshot,
) -> bool:
    verb, group, plural = (asked.get(key) or "" for key in ("verb", "group", "resource"))
    if verb not in _READS or asked.get("subresource"):
        return False
    name, namespace = asked.get("name") or "", asked.get("namespace") or ""
    version = asked.get("version") or "v1"
    target = paths.Target(group, version, plural, "", name)
    # kubectl asks with its namespace about kinds that have none, too.
    if (group, plural) == ("", "namespaces"):
        return verb in _LISTS
    if (group, plural) == (constants.GROUP, capsule.TENANTS.plural):
        return verb in _LISTS or name in given.tenants
    namespaced = known.served(group, plural)
    if namespaced is None:
        return False
    if namespaced:
        return not namespace and verb in _LISTS and bool(given.tenants or known.reflected(who))
    return given.of(target, get=verb == "get") is not None


def _rules(given: grants.Grants) -> list[dict[str, Any]]:
    found = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
        {
            "apiGroups": [constants.GROUP],
            "resources": [capsule.TENANTS.plural],
            "verbs": ["list", "watch"],
        },
    ]
    words = sorted({word for held in given.held for word in held.words})
    for group, plural in (grants.LEGACY[word] for word in words):
        found.append({"apiGroups": [group], "resources": [plural], "verbs": sorted(_READS)})
    for rule in given.rules:
        verbs = sorted(_READS) if "List" in rule.operations else ["get"]
        groups = [pattern.partition("/")[0] for pattern in rule.api_groups]
        found.append({"apiGroups": groups, "resources": list(rule.resources), "verbs": verbs})
    return found
