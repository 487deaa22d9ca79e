"""Roles for service accounts that a tenant's rules promote (specs/capsule 4.1, step 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import tenant
from tenantry.core import selectors
from tenantry.directory import identity
from tenantry.directory import state as directory


class Account(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A service account that carries the label of promotion to roles."""

    namespace: str
    name: str
    labels: dict[str, str]

    @property
    def subject(self) -> identity.Subject:
        name = f"{identity.SERVICE_ACCOUNT_PREFIX}{self.namespace}:{self.name}"
        return identity.Subject("ServiceAccount", name)


class _Wire(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta


_WIRE = msgspec.json.Decoder(_Wire)


def view(raw: bytes) -> Account:
    """Project one service account."""
    found = _WIRE.decode(raw).metadata
    return Account(namespace=found.namespace, name=found.name, labels=found.labels)


def granted(
    owner: tenant.Tenant,
    members: Iterable[directory.NamespaceView],
    accounts: Iterable[Account],
) -> Iterator[tuple[Account, str, frozenset[str]]]:
    """Yield account, cluster role and the namespaces where it is bound.

    An account counts for a rule when it lives in a namespace that the rule selects; its role is
    bound in all of these, its own among them.

    :param members: the tenant's namespaces
    :param accounts: promoted service accounts in them
    """
    spaces, known = list(members), list(accounts)
    for rule in owner.spec.rules:
        entries = rule.permissions.promotions if rule.permissions is not None else ()
        if not entries:
            continue
        selector = rule.namespace_selector
        targets = frozenset(
            space.name
            for space in spaces
            if selector is None or selectors.matches(selector.plain(), space.labels)
        )
        for entry in entries:
            for account in known:
                if account.namespace not in targets:
                    continue
                if entry.selector is not None and not selectors.matches(
                    entry.selector.plain(), account.labels
                ):
                    continue
                for role in entry.cluster_roles:
                    yield account, role, targets


def bindings(
    found: Iterable[tuple[Account, str, frozenset[str]]], namespace: str
) -> list[tuple[identity.Subject, str]]:
    """Return who gets which role in one namespace, each once."""
    return list(
        dict.fromkeys(
            (account.subject, role) for account, role, targets in found if namespace in targets
        )
    )


def reported(found: Iterable[tuple[Account, str, frozenset[str]]]) -> list[Mapping[str, Any]]:
    """Return `status.promotions`: each account with its roles and where they are bound."""
    roles: dict[identity.Subject, dict[str, None]] = {}
    targets: dict[identity.Subject, set[str]] = {}
    for account, role, where in found:
        roles.setdefault(account.subject, {})[role] = None
        targets.setdefault(account.subject, set()).update(where)
    return [
        {
            "kind": subject.kind,
            "name": subject.name,
            "clusterRoles": list(roles[subject]),
            "targets": sorted(targets[subject]),
        }
        for subject in sorted(roles)
    ]
