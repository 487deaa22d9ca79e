"""Keep webhook configurations in step without fighting those who keep them, too; pure.

An installation by GitOps has the configurations in its repository, but cannot have the caBundle,
which belongs to a certificate made in the cluster. So where somebody else owns the rules of a
configuration, only the caBundle of the webhooks that lead to us is ours, and with it the webhooks
that follow what is in the cluster and so cannot be in a repository; else everything is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tenantry.api import resources

Object = dict[str, Any]


def wanted(
    full: Object,
    observed: Mapping[str, Any] | None,
    manager: str,
    following: Collection[str] = (),
) -> Object:
    """Return what to apply as `manager`.

    :param full: the whole configuration as we would write it, each webhook with our clientConfig
    :param observed: the configuration as it is, with managedFields; None when there is none
    :param following: names of webhooks that follow what is in the cluster, and are always ours
    """
    if observed is None or not kept_by_others(observed, manager):
        return full
    ours = [hook["clientConfig"] for hook in full["webhooks"]]
    return {
        "apiVersion": full["apiVersion"],
        "kind": full["kind"],
        "metadata": {"name": full["metadata"]["name"]},
        "webhooks": [
            *(
                {"name": hook["name"], "clientConfig": {"caBundle": ours[0]["caBundle"]}}
                for hook in observed.get("webhooks") or ()
                if hook["name"] not in following
                and any(_same_place(hook.get("clientConfig") or {}, each) for each in ours)
            ),
            *(hook for hook in full["webhooks"] if hook["name"] in following),
        ],
    }


def denying(policy: Object) -> list[tuple[resources.Resource, Object]]:
    """Return a ValidatingAdmissionPolicy and the binding that makes it refuse, in the cluster."""
    name = policy["metadata"]["name"]
    binding = {
        "apiVersion": policy["apiVersion"],
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [
        (resources.VALIDATING_POLICIES, policy),
        (resources.VALIDATING_POLICY_BINDINGS, binding),
    ]


def kept_by_others(observed: Mapping[str, Any], manager: str) -> bool:
    """Tell whether somebody else owns rules of a webhook in this configuration."""
    return any("f:rules" in fields for _, fields in of_others(observed, manager))


def of_others(observed: Mapping[str, Any], manager: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give what others own of each webhook, by its key in `managedFields`: ``k:{"name":"x"}``."""
    for entry in (observed.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") != manager:
            yield from ((entry.get("fieldsV1") or {}).get("f:webhooks") or {}).items()


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compare where two clientConfigs lead: the Service, or the address without its path."""
    here, there = one.get("service"), other.get("service")
    if here and there:
        return (here.get("namespace"), here.get("name")) == (
            there.get("namespace"),
            there.get("name"),
        )
    return bool(one.get("url")) and _host(one["url"]) == _host(other.get("url") or "")


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
