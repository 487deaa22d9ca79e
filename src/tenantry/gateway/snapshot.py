"""What the gateway knows, as an index that is fed by watches in any order.

Who owns what is the directory's; here are the settings of the gateway's own kinds, the scopes of
served kinds, and the answer to "what was this identity given", kept until something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import constants, proxy_settings, tenant
from tenantry.directory import identity as directory_identity
from tenantry.directory import state as directory
from tenantry.gateway import grants, identity, paths, terms

#: Identities whose grants are kept.
_KEPT = 4096
Scope = tuple[str, str, str]


class BindingView(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a RoleBinding: where it is, and whom it names."""

    namespace: str
    name: str
    subjects: tuple[tuple[str, str], ...]
    """(kind, name), service accounts by their full user name"""


class RightView(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a Role or binding: that it is not the one from before."""

    version: str


class _Versioned(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""


class _Right(msgspec.Struct, gc=False):
    metadata: _Versioned


_RIGHT = msgspec.json.Decoder(_Right)


def right_view(raw: bytes) -> RightView:
    """Project anything of RBAC."""
    return RightView(_RIGHT.decode(raw).metadata.resource_version)


class _Binding(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta
    subjects: list[meta.Subject] | None = None


_BINDING = msgspec.json.Decoder(_Binding)


def binding_view(raw: bytes) -> BindingView:
    """Project one RoleBinding."""
    found = _BINDING.decode(raw)
    namespace = found.metadata.namespace
    subjects = [
        (
            "ServiceAccount",
            f"{directory_identity.SERVICE_ACCOUNT_PREFIX}{s.namespace or namespace}:{s.name}",
        )
        if s.kind == "ServiceAccount"
        else (s.kind, s.name)
        for s in found.subjects or ()
    ]
    return BindingView(namespace, found.metadata.name, tuple(subjects))


class Snapshot:
    """Implements `decide.Snapshot` over what the watches told."""

    def __init__(
        self,
        known: directory.Directory,
        *,
        ignored_users: Iterable[str] = (),
        ignored_groups: Iterable[str] = (),
    ) -> None:
        self._directory = known
        self._ignored_users = frozenset(ignored_users)
        self._ignored_groups = frozenset(ignored_groups)
        self._settings: dict[tuple[str, str], proxy_settings.ProxySetting] = {}
        self._global: dict[str, proxy_settings.GlobalProxySettings] = {}
        self._scopes: dict[Scope, tuple[bool, str]] = {}
        self._bound: dict[tuple[str, str], dict[str, int]] = {}
        self._owners: dict[tuple[str, str], list[str]] | None = None
        self._given: dict[identity.Identity, grants.Grants] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._impostors: dict[str, set[str]] = {}
        #: Raised by every change that a decision may rest on.
        self.revision = 0
        self._listeners: list[Callable[[], None]] = []

    # What the watches tell.

    def changed(self) -> None:
        """Note that tenants, owners, the configuration or namespaces are not what they were."""
        self.revision += 1
        self._owners = None
        self._given.clear()
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Be told of every change."""
        self._listeners.append(listener)

    def setting_changed(
        self, namespace: str, name: str, new: proxy_settings.ProxySetting | None
    ) -> None:
        if new is None:
            self._settings.pop((namespace, name), None)
        else:
            self._settings[(namespace, name)] = new
        self.changed()

    def global_changed(self, name: str, new: proxy_settings.GlobalProxySettings | None) -> None:
        if new is None:
            self._global.pop(name, None)
        else:
            self._global[name] = new
        self.changed()

    def namespace_changed(
        self, name: str, old: directory.NamespaceView | None, new: directory.NamespaceView | None
    ) -> None:
        """Note the namespaces' labels, and which carry a tenant's without being owned by it."""
        if new is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = new.labels
        for view, add in ((old, False), (new, True)):
            label = view.labels.get(constants.TENANT_LABEL) if view is not None else None
            if view is None or label is None or view.tenant == label:
                continue
            impostors = self._impostors.setdefault(label, set())
            if add:
                impostors.add(name)
            else:
                impostors.discard(name)
            if not impostors:
                del self._impostors[label]
        self.changed()

    def binding_changed(self, old: BindingView | None, new: BindingView | None) -> None:
        """Note whom RoleBindings name, counted, since several may name the same."""
        for view, step in ((old, -1), (new, 1)):
            for subject in view.subjects if view is not None else ():
                assert view is not None
                counted = self._bound.setdefault(subject, {})
                counted[view.namespace] = counted.get(view.namespace, 0) + step
                if counted[view.namespace] <= 0:
                    del counted[view.namespace]
                if not counted:
                    del self._bound[subject]
        self.changed()

    @property
    def scopes(self) -> dict[Scope, tuple[bool, str]]:
        """What is served, as far as is known."""
        return self._scopes

    def scopes_are(self, scopes: dict[Scope, tuple[bool, str]]) -> None:
        """Replace what is served: (group, version, plural) -> whether namespaced, and its kind."""
        if scopes != self._scopes:
            self._scopes = scopes
            self.changed()

    def kind(self, target: paths.Target) -> str:
        """Return the kind of a collection's list."""
        return self._scopes.get(_scope(target), (True, ""))[1] + "List"

    # What decisions ask.

    def given(self, who: identity.Identity) -> grants.Grants:
        found = self._given.get(who)
        if found is None:
            if len(self._given) >= _KEPT:
                self._given.clear()
            found = self._given[who] = self._resolve(who)
        return found

    def namespaced(self, target: paths.Target) -> bool | None:
        found = self._scopes.get(_scope(target))
        return found[0] if found is not None else None

    def served(self, group: str, plural: str) -> bool | None:
        """Tell the scope of a kind in whatever version; None when it is not served."""
        for (found, _, name), (namespaced, _) in self._scopes.items():
            if (found, name) == (group, plural):
                return namespaced
        return None

    def namespaces_of(self, tenant: str) -> tuple[str, ...]:
        return tuple(view.name for view in self._directory.namespaces_of(tenant))

    def impostors(self, tenants: tuple[str, ...]) -> tuple[str, ...]:
        if not self._impostors:
            return ()
        return tuple(sorted(n for tenant in tenants for n in self._impostors.get(tenant, ())))

    def namespaces_shown(self, shown: terms.Terms) -> frozenset[str]:
        if not shown:
            return frozenset()
        return frozenset(
            name for name, labels in self._labels.items() if terms.shows(shown, name, labels)
        )

    def reflected(self, who: identity.Identity) -> frozenset[str]:
        if not self._bound:
            return frozenset()
        return frozenset(
            namespace for subject in who.subjects for namespace in self._bound.get(subject, ())
        )

    def _resolve(self, who: identity.Identity) -> grants.Grants:
        if who.user in self._ignored_users or not self._ignored_groups.isdisjoint(who.groups):
            return grants.NOBODY
        requester = who.requester
        roster = self._directory.roster
        if roster.is_controller(requester):
            return grants.NOBODY
        if self._directory.classify(requester) is directory_identity.Class.UNKNOWN:
            return grants.NOBODY
        subjects = who.subjects
        words: dict[str, frozenset[str]] = {}
        rules: list[proxy_settings.ClusterResource] = []
        for subject in subjects:
            for name in self._owned().get(subject, ()):
                words[name] = words.get(name, frozenset()) | self._owner_words(name, subject)
        for (namespace, _), setting in sorted(self._settings.items()):
            owner = self._directory.tenant_of(namespace)
            for entry in setting.spec.subjects if owner is not None else ():
                if (entry.kind, entry.name) in subjects:
                    assert owner is not None
                    legacy = grants.legacy_words(entry.proxy_settings)
                    words[owner] = words.get(owner, frozenset()) | legacy
                    rules += entry.cluster_resources
        for _, found in sorted(self._global.items()):
            for rule in found.spec.rules:
                if any((entry.kind, entry.name) in subjects for entry in rule.subjects):
                    rules += rule.cluster_resources
        held = [
            grants.Held(tenant, words[name])
            for name in sorted(words)
            if (tenant := self._directory.tenant_named(name)) is not None
        ]
        return grants.Grants(user=True, held=tuple(held), rules=tuple(rules))

    def _owned(self) -> dict[tuple[str, str], list[str]]:
        if self._owners is None:
            self._owners = {}
            for found in self._directory.tenants():
                for owner in self._directory.owners_of(found):
                    key = (owner.subject.kind, owner.subject.name)
                    self._owners.setdefault(key, []).append(found.metadata.name)
        return self._owners

    def _owner_words(self, name: str, subject: tuple[str, str]) -> frozenset[str]:
        found: tenant.Tenant | None = self._directory.tenant_named(name)
        words: frozenset[str] = frozenset()
        for owner in found.spec.owners if found is not None else ():
            if (owner.kind, owner.name) == subject:
                words |= grants.legacy_words(owner.proxy_settings)
        return words


def _scope(target: paths.Target) -> Scope:
    return (target.group, target.version, target.plural)
