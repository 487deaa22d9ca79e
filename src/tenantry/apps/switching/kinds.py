"""The kinds of Capsule's group, as the cluster has them and as Tenantry defines them; pure."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.api.capsule import resources as capsule
from tenantry.apps import hooks
from tenantry.apps.switching import snapshot
from tenantry.tenancy.checking import findings


def defined(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    if found.definitions is None:
        return
    there = {one.name: one for one in found.definitions}
    for name, wanted in sorted(found.wanted.items()):
        if name not in there:
            yield findings.Finding(
                severity="note",
                kind="CustomResourceDefinition",
                name=name,
                now="is not there",
                then="is added with Tenantry's kinds",
                remedy="tenantry crds install",
            )
            continue
        yield from _compared(there[name], wanted, found)
    for name, one in sorted(there.items()):
        number = found.objects.get(name, 0)
        if name in found.wanted:
            continue
        yield findings.Finding(
            severity="blocks" if number else "note",
            kind="CustomResourceDefinition",
            name=name,
            now=f"{findings.count(number, 'object')} of kind {one.kind}",
            then="Tenantry does not serve this kind yet: nobody acts on its objects"
            if number
            else "is not served by Tenantry yet; there is nothing to lose",
            remedy=f"kubectl get {name} -A; replace what is still needed, delete the rest"
            if number
            else "",
        )


def _compared(
    one: snapshot.Definition, wanted: snapshot.Definition, found: snapshot.Snapshot
) -> Iterator[findings.Finding]:
    about = {"kind": "CustomResourceDefinition", "name": one.name}
    if missing := one.stored - wanted.served:
        yield findings.Finding(
            severity="blocks",
            field="status.storedVersions",
            now=f"objects are stored as {findings.listed(missing)}",
            then="the API server refuses Tenantry's definition",
            remedy="write each object once in the storage version, then take the old one from "
            "status.storedVersions",
            **about,
        )
    elif len(one.stored) > 1 and one.converter:
        yield findings.Finding(
            severity="changes",
            field="status.storedVersions",
            now=f"some objects may be stored as {findings.listed(one.stored)}",
            then="they cannot be read while nobody converts: between stopping Capsule and "
            "Tenantry's start",
            remedy=f"before: kubectl get {one.name} -o name | xargs -n1 kubectl annotate "
            "--overwrite stored=again; then take the old version from status.storedVersions",
            **about,
        )
    dropped, added = set[str](), set[str]()
    for version, paths in one.fields.items():
        ours = wanted.fields.get(version)
        if ours is None:
            if version in one.served:
                dropped.add(f"version {version}")
            continue
        dropped |= outermost(paths - ours)
        added |= outermost(ours - paths)
    if dropped:
        yield findings.Finding(
            severity="changes",
            field="spec.versions[].schema",
            now=f"has {findings.count(len(dropped), 'field')} that Tenantry does not know: "
            f"{findings.listed(dropped)}",
            then="they vanish from each object at its next write",
            remedy=f"before: kubectl get {one.name} -A -o yaml > {one.name}.yaml",
            **about,
        )
    if added:
        yield findings.Finding(
            severity="note",
            field="spec.versions[].schema",
            now=f"lacks {findings.count(len(added), 'field')}: {findings.listed(added)}",
            then="they are added, with Tenantry's kinds",
            remedy="tenantry crds install",
            **about,
        )
    if one.converter and one.name == capsule.TENANTS.group_resource:
        same = one.converter == f"{found.namespace}/{hooks.SERVICE}"
        yield findings.Finding(
            severity="note" if same else "changes",
            field="spec.conversion",
            now=f"Tenants are converted by {one.converter}",
            then="Tenantry's webhook role makes the conversion its own when it starts; until then "
            "Tenants of v1beta1 can be neither read nor written",
            **about,
        )


def outermost(paths: frozenset[str]) -> set[str]:
    """Return paths without those that lie below another."""
    return {
        path
        for path in paths
        if not any(path[:end] in paths for end, letter in enumerate(path) if letter in ".[")
    }
