"""Gather what the tenancy's admission steps rest on.

For namespaces everything is read from the API server after the request arrived: a tenant created
a moment ago counts, an owner revoked a moment ago does not. Memory only says where to look. For
what lies inside namespaces memory is enough, and a namespace that memory does not know is read.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Sequence

import msgspec

from tenantry.api import meta, resources
from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.apps import candidates, people, policies
from tenantry.directory import identity, owners
from tenantry.directory import state as directory
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.runtime import admission, permissions
from tenantry.tenancy import evidence, state
from tenantry.tenancy.admission import break_glass, content

NEEDS = (
    permissions.Need(capsule.TENANTS, ("get", "list")),
    permissions.Need(capsule.TENANT_OWNERS, ("list",)),
    permissions.Need(capsule.CONFIGURATIONS, ("get",)),
    permissions.Need(resources.NAMESPACES, ("get",)),
    permissions.Need(resources.SERVICE_ACCOUNTS, ("get",)),
)


#: Condition that the namespace controller sets on a namespace it empties.
CONTENT_REMAINING = "NamespaceContentRemaining"


class _NamespaceStatus(msgspec.Struct, gc=False):
    conditions: list[meta.Condition] = []


class _Namespace(msgspec.Struct, gc=False):
    status: _NamespaceStatus = msgspec.field(default_factory=_NamespaceStatus)


_NAMESPACE = msgspec.json.Decoder(_Namespace)


class _ServiceAccount(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta


_SERVICE_ACCOUNT = msgspec.json.Decoder(_ServiceAccount)


class Gatherer:
    """Reads evidence for one review."""

    def __init__(
        self,
        client: kube.Client,
        known: state.State,
        controllers: frozenset[str],
        content: policies.Policies | None = None,
    ) -> None:
        """Build a gatherer.

        :param content: policies of what lies inside namespaces, where such reviews come
        """
        self._content = content
        self._client = client
        self._known = known
        self._controllers = controllers
        self._platform = [identity.Subject("User", name) for name in controllers]

    async def __call__(
        self, review: admission.Review, *, proposing: bool = False
    ) -> evidence.Evidence:
        """Gather evidence for a review, live where the decision is about ownership.

        :param proposing: the answer will be judged by another review, as what a mutation does is
        """
        requester = identity.Requester(review.user.username, frozenset(review.user.groups))
        if review.is_about(resources.NAMESPACES):
            # What breaks the glass is told as done, so that memory's word is not enough.
            remembered = proposing and break_glass.asked(review) is None
            found = await self._proposed(review, requester) if remembered else None
            return found if found is not None else await self._live(review, requester)
        return await self._remembered(review, requester, proposing=proposing)

    async def exists(self, name: str) -> bool:
        """Ask the API server whether there is a namespace of that name."""
        return await self._read_namespace(name) is not None

    async def _proposed(
        self, review: admission.Review, requester: identity.Requester
    ) -> evidence.Evidence | None:
        """Answer by memory where it gives the requester what is chosen; None where it does not.

        Read is only what memory does not give: a tenant of that name that it has not heard of
        may be the requester's, and so may one that it takes for somebody else's.
        """
        who = self._people_remembered(requester)
        if who is None:
            return None
        proposals, undecided = self._proposals(review, requester)
        wanted = candidates.mentioned(review) | proposals
        if undecided:
            # That memory has all names, which is asked for, means that others do not exist.
            wanted = wanted.intersection(self._known.directory.tenant_names())
        index = self._known.directory
        remembered = [index.tenant_named(name) for name in wanted]
        known = who.given(index.effective(one) for one in remembered if one is not None)
        async with asyncio.TaskGroup() as group:
            named_read = group.create_task(self._named(wanted - known.keys()))
            current_read = group.create_task(self._is_current()) if undecided else None
        found = [*known.values(), *named_read.result()]
        current = current_read is not None and current_read.result()
        if current_read is not None and not current:
            return None
        complete = current and self._has_all(requester, wanted)
        return self._found(who, found) if who.suffice(review, found, complete=complete) else None

    async def _live(
        self, review: admission.Review, requester: identity.Requester
    ) -> evidence.Evidence:
        proposals, undecided = self._proposals(review, requester)
        wanted = candidates.mentioned(review) | proposals
        async with asyncio.TaskGroup() as group:
            named_read = group.create_task(self._named(wanted))
            current_read = group.create_task(self._is_current()) if undecided else None
            people_read = group.create_task(self._people(requester))
        found, who = named_read.result(), people_read.result()
        current = current_read is not None and current_read.result()
        complete = current and self._has_all(requester, wanted)
        if who.tenant_owners is None and not who.suffice(review, found, complete=complete):
            who = dataclasses.replace(who, tenant_owners=await self._tenant_owners())
        if who.is_open(review) and not who.suffice(review, found, complete=complete):
            found = await self._tenants()
        return self._found(who, found)

    def _has_all(self, requester: identity.Requester, wanted: Collection[str]) -> bool:
        """Tell whether all is among `wanted` that the requester owns by what memory knows now.

        It may have caught up only while it was asked about, after the proposals were made.
        """
        return self._known.directory.owned_by(requester) <= frozenset(wanted)

    def _found(self, who: people.People, found: Sequence[tenant.Tenant]) -> evidence.Evidence:
        administrators = who.roster.administrators

        def guest(owner: tenant.Tenant, name: str) -> str:
            for subject in (*administrators, *self._platform):
                if identity.home(subject) == name:
                    return subject.name
            return self._known.directory.owner_at_home(name, besides=owner.metadata.name)

        return evidence.Evidence(
            requester=who.requester,
            requester_class=who.klass,
            config=who.config,
            tenants={one.metadata.name: one for one in found},
            owners_of=who.owners_of,
            guest=guest,
        )

    def _people_remembered(self, requester: identity.Requester) -> people.People | None:
        """Return who the requester is by memory; None for those whom memory does not know."""
        index = self._known.directory
        account = requester.service_account
        home = index.tenant_of(account[0]) if account is not None else None
        who = people.People(
            requester=requester,
            controllers=self._controllers,
            config=index.config,
            tenant_owners=tuple(index.tenant_owners()),
            home=home,
            promotions=[p for p in index.promotions_of(home or "") if p.subject.matches(requester)],
        )
        return None if who.klass is identity.Class.UNKNOWN else who

    async def _people(self, requester: identity.Requester) -> people.People:
        """Read who the requester is.

        TenantOwners are left for later where, by memory, configuration and tenants will do.
        """
        index = self._known.directory
        unknown = index.classify(requester) is identity.Class.UNKNOWN
        async with asyncio.TaskGroup() as group:
            config_read = group.create_task(self._configuration())
            home_read = group.create_task(self._home(requester))
            owners_read = (
                group.create_task(self._tenant_owners())
                if unknown or index.is_named(requester)
                else None
            )
        home, promotions = home_read.result()
        return people.People(
            requester=requester,
            controllers=self._controllers,
            config=config_read.result(),
            tenant_owners=owners_read.result() if owners_read is not None else None,
            home=home,
            promotions=promotions,
        )

    def _proposals(
        self, review: admission.Review, requester: identity.Requester
    ) -> tuple[frozenset[str], bool]:
        """Return the tenants to read, by memory, and whether that leaves the choice open."""
        index = self._known.directory
        if not candidates.is_open(review, index.classify(requester)):
            return frozenset(), False
        name, owned = candidates.name_of(review), index.owned_by(requester)
        proposals = candidates.proposed(name, owned, index.tenant_names())
        if proposals is None:
            return frozenset(), False
        return proposals, bool(owned) and not candidates.decided(name, owned)

    async def _is_current(self) -> bool:
        return await candidates.is_current(self._client, self._known)

    async def _remembered(
        self, review: admission.Review, requester: identity.Requester, *, proposing: bool
    ) -> evidence.Evidence:
        index = self._known.directory
        view, read = await self._place(review.namespace)
        name = view.tenant if view is not None else None
        owner = await self._owner(name, read=read) if name is not None else None
        home = await self._home_remembered(requester, review.namespace, name)
        found = await self._named([name]) if name and content.concerns_promotion(review) else []
        known = evidence.Evidence(
            requester=requester,
            requester_class=index.roster.classify(requester, lambda _: home),
            config=index.config,
            tenants={one.metadata.name: one for one in found},
            # Promoted accounts are left out: only owners by specification promote others.
            owners_of=lambda owner: owners.owners(owner, index.config, index.tenant_owners()),
            tenant_name=name,
            home=home,
            cordoned=_cordoned(view, owner),
            leaving=bool(review.namespace) and (view is None or view.terminating),
            occupied=view is not None and occupied(view),
            is_controller=requester.name in self._controllers,
        )
        if self._content is None or view is None or owner is None or review.operation == "DELETE":
            return known
        policy = self._content.of(owner, view)
        return dataclasses.replace(
            known,
            policy=policy,
            node_selector=owner.spec.node_selector,
            around=await self._content.around(review, policy, proposing=proposing),
            owns=lambda: owners.is_owner(index.owners_of(owner), requester),
        )

    async def _place(self, name: str) -> tuple[directory.NamespaceView | None, bool]:
        """Return the namespace of a review, and whether memory was not enough for that.

        We are asked about the content of tenants' namespaces. One that memory has not heard of,
        takes for nobody's or saw ending may be a tenant's by now, so it is read.
        """
        view = self._known.directory.namespace(name) if name else None
        if not name or (view is not None and view.tenant is not None and not view.terminating):
            return view, False
        return await self._read_namespace(name), True

    async def _owner(self, name: str, *, read: bool) -> tenant.Tenant | None:
        """Return the tenant of a namespace; a memory that was behind may have its older rules."""
        known = None if read else self._known.directory.tenant_named(name)
        return known if known is not None else await self._one(name)

    async def _home_remembered(
        self, requester: identity.Requester, place: str, tenant_name: str | None
    ) -> str | None:
        """Return the tenant that a service account lives in.

        :param place: the namespace of the review, and its tenant
        """
        account = requester.service_account
        if account is None:
            return None
        if account[0] == place:
            return tenant_name
        view = self._known.directory.namespace(account[0]) or await self._read_namespace(account[0])
        return view.tenant if view is not None else None

    async def _read_namespace(self, name: str) -> directory.NamespaceView | None:
        try:
            return await self._client.get(
                resources.NAMESPACES, name, decode=directory.namespace_view
            )
        except errors.NotFound:
            return None

    async def _home(
        self, requester: identity.Requester
    ) -> tuple[str | None, Sequence[owners.Promotion]]:
        """Return the tenant a service account lives in, and its own promotion if it has one."""
        account = requester.service_account
        if account is None or requester.name in self._controllers:
            return None, ()
        namespace, name = account
        view = await self._read_namespace(namespace)
        if view is None or view.tenant is None:
            return None, ()
        try:
            found = await self._client.get(
                resources.SERVICE_ACCOUNTS, name, namespace, decode=_SERVICE_ACCOUNT.decode
            )
        except errors.NotFound:
            return view.tenant, ()
        label = found.metadata.labels.get(constants.PROMOTE_OWNER_LABEL)
        promoted = (owners.Promotion(namespace, name),) if label == constants.TRUE else ()
        return view.tenant, promoted

    async def _configuration(self) -> configuration.CapsuleConfigurationSpec:
        try:
            found = await self._client.get(
                capsule.CONFIGURATIONS,
                self._known.configuration_name,
                decode=state.configuration_view,
            )
        except errors.NotFound:
            return configuration.CapsuleConfigurationSpec()
        return found.spec

    async def _tenant_owners(self) -> list[tenant_owner.TenantOwner]:
        listed = await self._client.list(capsule.TENANT_OWNERS)
        return [state.tenant_owner_view(raw) for raw in listed.items]

    async def _tenants(self) -> list[tenant.Tenant]:
        listed = await self._client.list(capsule.TENANTS)
        index = self._known.directory
        return [index.effective(state.tenant_view(raw).tenant) for raw in listed.items]

    async def _named(self, wanted: Collection[str]) -> list[tenant.Tenant]:
        """Read tenants by name; one that does not exist is simply not in the answer."""
        read = await asyncio.gather(*(self._one(name) for name in wanted))
        return [found for found in read if found is not None]

    async def _one(self, name: str) -> tenant.Tenant | None:
        try:
            view = await self._client.get(capsule.TENANTS, name, decode=state.tenant_view)
        except errors.NotFound:
            return None
        return self._known.directory.effective(view.tenant)


def _cordoned(view: directory.NamespaceView | None, owner: tenant.Tenant | None) -> bool:
    if view is None:
        return False
    frozen = owner is not None and owner.spec.cordoned
    return frozen or view.labels.get(constants.CORDONED_LABEL) == constants.TRUE


def occupied(view: directory.NamespaceView) -> bool:
    """Tell whether a namespace may hold something, by what the namespace controller found last.

    Until it looked it does; what it was refused to delete it does not count.
    """
    if not view.raw:
        return False
    for condition in _NAMESPACE.decode(view.raw).status.conditions:
        if condition.type == CONTENT_REMAINING:
            return condition.status != "False"
    return True
