"""Classify the requester of an admission request (specs/capsule 3.1)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from tenantry.api.capsule import configuration, tenant_owner
from tenantry.core import names

SERVICE_ACCOUNTS = "system:serviceaccounts"
KUBE_SYSTEM_SERVICE_ACCOUNTS = "system:serviceaccounts:kube-system"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
#: Who empties namespaces that are being deleted: by its own account, or the process as a whole.
NAMESPACE_CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:namespace-controller",
)


class Class(enum.Enum):
    """What a requester is to the tenancy."""

    ADMIN = "administrator"
    CAPSULE = "capsule user"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Requester:
    """The user of a request as the API server authenticated it."""

    name: str
    groups: frozenset[str] = frozenset()

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Return (namespace, name) when the user name is a service account's."""
        return split_service_account(self.name)


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Somebody named in a specification: kind is User, Group or ServiceAccount."""

    kind: str
    name: str

    def matches(self, requester: Requester) -> bool:
        """Compare by group list for Group, by user name for the others."""
        if self.kind == "Group":
            return self.name in requester.groups
        return self.name == requester.name


def home(subject: Subject) -> str:
    """Return the namespace in which service accounts are this subject; "" for people.

    Whoever creates that namespace becomes the subject, whatever its kind says.
    """
    account = split_service_account(subject.name)
    if account is not None:
        return account[0]
    if subject.kind == "Group" and subject.name.startswith(f"{SERVICE_ACCOUNTS}:"):
        return subject.name.removeprefix(f"{SERVICE_ACCOUNTS}:")
    return ""


def split_service_account(name: str) -> tuple[str, str] | None:
    """Split ``system:serviceaccount:<namespace>:<name>``; None for any other user name.

    What no namespace and no account can be called is no service account either, so that both
    halves may stand in the path of a request.
    """
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, _, account = name[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
    real = names.is_dns_label(namespace) and names.is_dns_subdomain(account)
    return (namespace, account) if real else None


@dataclass(frozen=True, slots=True)
class Roster:
    """Who is known to the tenancy: one configuration, resolved.

    Read from the specifications, never from ``status.users``: a revoked user must be nobody at
    once, not after the next reconcile.
    """

    controllers: Collection[str]
    users: frozenset[Subject]
    administrators: frozenset[Subject]
    ignored_groups: frozenset[str]

    def is_controller(self, requester: Requester) -> bool:
        return requester.name in self.controllers

    def classify(
        self, requester: Requester, tenant_of: Callable[[str], str | None] = lambda _: None
    ) -> Class:
        """Place the requester.

        :param tenant_of: gives the tenant of a namespace; asked only for service accounts, which
            are Capsule users when the namespace they live in belongs to a tenant
        """
        if self.is_controller(requester):
            return Class.ADMIN
        if not self.ignored_groups.isdisjoint(requester.groups):
            return Class.UNKNOWN
        if any(subject.matches(requester) for subject in self.administrators):
            return Class.ADMIN
        # Guards against `system:authenticated` as a user group taking in the control plane.
        if KUBE_SYSTEM_SERVICE_ACCOUNTS in requester.groups:
            return Class.UNKNOWN
        account = requester.service_account
        if account is not None:
            if account[0] == "kube-system":
                return Class.UNKNOWN
            if tenant_of(account[0]) is not None:
                return Class.CAPSULE
        if any(subject.matches(requester) for subject in self.users):
            return Class.CAPSULE
        return Class.UNKNOWN


def roster(
    spec: configuration.CapsuleConfigurationSpec,
    tenant_owners: Iterable[tenant_owner.TenantOwner],
    controllers: Collection[str],
) -> Roster:
    """Resolve a configuration and the TenantOwners that also make their subject a Capsule user."""
    return Roster(
        controllers=frozenset(controllers),
        users=frozenset(effective_users(spec, tenant_owners)),
        administrators=frozenset(Subject(s.kind, s.name) for s in spec.administrators),
        ignored_groups=frozenset(spec.ignore_user_with_groups),
    )


def effective_users(
    spec: configuration.CapsuleConfigurationSpec,
    tenant_owners: Iterable[tenant_owner.TenantOwner],
) -> Iterator[Subject]:
    """Yield every Capsule user: listed, listed in the deprecated fields, or aggregated."""
    yield from (Subject(s.kind, s.name) for s in spec.users)
    yield from (Subject("User", name) for name in spec.user_names)
    yield from (Subject("Group", name) for name in spec.user_groups)
    yield from (Subject(o.spec.kind, o.spec.name) for o in tenant_owners if o.spec.aggregate)
