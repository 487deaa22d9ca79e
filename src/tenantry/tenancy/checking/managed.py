"""What Capsule has made for tenants, next to what Tenantry would make."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tenantry.api.capsule import constants, tenant
from tenantry.core import errors, quantity
from tenantry.directory import state as directory
from tenantry.tenancy import bindings, families, promotions
from tenantry.tenancy.checking import findings, views


@dataclasses.dataclass
class _Difference:
    """Names of one kind of object, as namespace/name, by what becomes of them."""

    made: list[str] = dataclasses.field(default_factory=list)
    changed: list[str] = dataclasses.field(default_factory=list)
    removed: list[str] = dataclasses.field(default_factory=list)
    #: No longer wanted, but not labelled as our controllers look for it.
    left: list[str] = dataclasses.field(default_factory=list)

    def there(self, one: views.Binding | views.Copy) -> None:
        (self.removed if one.followed else self.left).append(f"{one.namespace}/{one.name}")


def examine(known: views.Tenancy) -> Iterator[findings.Finding]:
    """Compare what is there with what is wanted, tenant by tenant, and count what is taken over."""
    if known.tenants is not None and known.spaces is not None:
        if known.bindings is not None:
            yield from _bindings(known, known.bindings)
        for family in families.ALL:
            copies = known.copies.get(family.resource.plural)
            if copies is not None:
                yield from _copies(known, family, copies)
    yield from _taken(known)


def _bindings(known: views.Tenancy, there: Sequence[views.Binding]) -> Iterator[findings.Finding]:
    if known.tenant_owners is None or known.promoted is None or known.accounts is None:
        return  # Who owns what is not known, and whoever is missing would seem to lose it all.
    by_space = _by_namespace(there)
    for owner in known.readable():
        difference = _Difference()
        members = known.members(owner)
        entries = known.entries(owner)
        granted = list(_granted(known, owner, members))
        for space in members:
            try:
                wanted = bindings.desired(
                    owner, space.name, space.labels, entries,
                    promotions.bindings(granted, space.name),
                )  # fmt: skip
            except errors.TenantryError:
                continue
            present = {one.name: one for one in by_space.get(space.name, ())}
            for name, binding in wanted.items():
                found = present.pop(name, None)
                if found is None:
                    difference.made.append(f"{space.name}/{name}")
                elif found.grants != _grants(binding):
                    difference.changed.append(f"{space.name}/{name}")
            for found in present.values():
                difference.there(found)
        yield from _told("RoleBinding", owner.metadata.name, difference)
    yield from _strays("RoleBinding", known, there)


def _granted(
    known: views.Tenancy, owner: tenant.Tenant, members: Sequence[views.Space]
) -> Iterator[tuple[promotions.Account, str, frozenset[str]]]:
    if not known.accounts:
        return
    spaces = {space.name for space in members}
    as_seen = [
        directory.NamespaceView(
            name=space.name, uid=space.uid, resource_version="", labels=dict(space.labels),
            annotations={}, tenant=owner.metadata.name, tenant_uid=owner.metadata.uid,
            terminating=False, raw=b"",
        )
        for space in members
    ]  # fmt: skip
    accounts = [one for one in known.accounts if one.namespace in spaces]
    yield from promotions.granted(owner, as_seen, accounts)


def _grants(binding: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    return (
        binding["roleRef"]["name"],
        tuple(
            sorted(
                (one["kind"], one.get("namespace", ""), one["name"]) for one in binding["subjects"]
            )
        ),
    )


def _copies(
    known: views.Tenancy, family: families.Family, there: Sequence[views.Copy]
) -> Iterator[findings.Finding]:
    by_space = _by_namespace(there)
    for owner in known.readable():
        difference = _Difference()
        for space in known.members(owner):
            present = {one.name: one for one in by_space.get(space.name, ())}
            for name, wanted in families.desired(family, owner, space.name).items():
                found = present.pop(name, None)
                if found is None:
                    difference.made.append(f"{space.name}/{name}")
                elif not covers(found.spec, wanted["spec"]):
                    difference.changed.append(f"{space.name}/{name}")
            for found in present.values():
                difference.there(found)
        yield from _told(family.resource.kind, owner.metadata.name, difference)
    yield from _strays(family.resource.kind, known, there)


def covers(found: Any, wanted: Any) -> bool:
    """Tell whether an object says all that is wanted, in words that may be the server's own."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        # What is empty is as good as absent.
        return all(
            covers(found.get(key), value) if key in found else not value and value != 0
            for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(covers, found, wanted))
    if found == wanted:
        return True
    try:
        return quantity.parse(found) == quantity.parse(wanted)
    except (errors.InvalidValueError, TypeError):
        return False


def _by_namespace(there: Iterable[Any]) -> dict[str, list[Any]]:
    known: dict[str, list[Any]] = {}
    for one in there:
        known.setdefault(one.namespace, []).append(one)
    return known


def _told(kind: str, owner: str, difference: _Difference) -> Iterator[findings.Finding]:
    for names, now, then, remedy in (
        (difference.made, "is wanted and not there", "is made", ""),
        (difference.changed, "says something else than is wanted", "is put right", ""),
        (difference.removed, "is there and not wanted", "is deleted", ""),
        (difference.left, "is not wanted and lacks the label that Tenantry goes by, "
         f"{constants.MANAGED_BY_LABEL}={constants.MANAGED_BY_CONTROLLER}, as from Capsule 0.11",
         "stays, and nobody keeps or removes it",
         f"after the switch, delete what is not needed: kubectl get {kind.lower()} -A "
         f"-l '{_LABELS[kind]},{constants.MANAGED_BY_LABEL}!={constants.MANAGED_BY_CONTROLLER}'"),
    ):  # fmt: skip
        if names:
            amount = findings.count(len(names), kind)
            yield findings.Finding(
                severity="changes",
                kind="Tenant",
                name=owner,
                field=f"objects: {kind}",
                now=f"{amount} {now if len(names) == 1 else _many(now)}: {findings.listed(names)}",
                then=then if len(names) == 1 else _many(then),
                remedy=remedy,
            )


def _many(words: str) -> str:
    first, _, rest = words.partition(" ")
    return {"is": "are", "says": "say", "stays,": "stay,"}.get(first, first) + (
        f" {rest}" if rest else ""
    )


_LABELS = {
    "RoleBinding": constants.ROLE_BINDING_LABEL,
    **{family.resource.kind: family.label for family in families.ALL},
}


def _strays(
    kind: str, known: views.Tenancy, there: Sequence[views.Binding | views.Copy]
) -> Iterator[findings.Finding]:
    """Tell of objects in namespaces that belong to no tenant."""
    owned = {
        space.name for owner in known.readable() for space in known.members(owner)
    } | {space.name for space in known.spaces or ()}  # fmt: skip
    stray = [f"{one.namespace}/{one.name}" for one in there if one.namespace not in owned]
    if stray:
        amount = findings.count(len(stray), kind)
        yield findings.Finding(
            severity="changes",
            kind=kind,
            name="*",
            now=f"{amount} of Capsule in namespaces of no tenant: {findings.listed(stray)}",
            then="is deleted, if labelled as managed",
            remedy="take the label "
            f"{constants.MANAGED_BY_LABEL} off what is to stay, before the switch",
        )


def _taken(known: views.Tenancy) -> Iterator[findings.Finding]:
    """Count the objects whose fields change hands."""
    sources: list[tuple[str, Sequence[Any] | None]] = [
        ("Tenant", known.tenants),
        ("Namespace", known.spaces),
        ("RoleBinding", known.bindings),
    ]
    sources += [(one.resource.kind, known.copies.get(one.resource.plural)) for one in families.ALL]
    for kind, objects in sources:
        counted = collections.Counter(
            manager for one in objects or () for manager in one.managers
        )  # fmt: skip
        number = sum(1 for one in objects or () if one.managers)
        if number:
            yield findings.Finding(
                severity="note",
                kind=kind,
                name="*",
                field="metadata.managedFields",
                now=f"{findings.count(number, 'object')} with fields of manager "
                f"{findings.listed(counted)} (Update)",
                then=f"what Capsule wrote becomes {constants.FIELD_MANAGER}'s (Apply), so that what "
                "is no longer wanted goes",
            )
