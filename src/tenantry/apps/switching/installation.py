"""What runs Capsule, and what leads requests to it; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tenantry.api.capsule import constants
from tenantry.apps import configured_clients, hooks, roles
from tenantry.apps.switching import snapshot
from tenantry.tenancy.checking import findings

#: How the names of webhooks end that Capsule makes from its configuration.
_SUFFIXES = tuple(side.suffix for side in configured_clients.SIDES)
#: Seconds after its end that a lease still counts, since clocks differ.
_GRACE = 5.0


def running(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    for one in found.workloads or ():
        words = " ".join(one.arguments)
        chosen = next(
            (
                word.partition("=")[2]
                for word in one.arguments
                if word.startswith("--configuration-name=")
            ),
            found.configuration_name,
        )
        if chosen != found.configuration_name:
            yield findings.Finding(
                severity="blocks",
                kind=one.kind,
                namespace=found.namespace,
                name=one.name,
                field="spec.template.spec.containers[].args",
                now=f"Capsule reads CapsuleConfiguration {findings.quoted(chosen)}",
                then=f"Tenantry reads {findings.quoted(found.configuration_name)}",
                remedy=f"give every role --configuration-name={chosen}, and this check, too",
            )
        if not one.replicas:
            continue
        elects = "--enable-leader-election" in words and "leader-election=false" not in words
        yield findings.Finding(
            severity="blocks",
            kind=one.kind,
            namespace=found.namespace,
            name=one.name,
            field="spec.replicas",
            now=f"Capsule runs: {findings.count(one.replicas, 'replica')}",
            then="both decide about every request, and "
            + (
                "Tenantry's controller waits for the Lease"
                if elects
                else "both controllers write at once, since this one runs without leader election"
            ),
            remedy=f"kubectl -n {found.namespace} scale deployment {one.name} --replicas=0"
            if one.kind == "Deployment"
            else f"kubectl -n {found.namespace} delete {one.kind.lower()} {one.name}",
        )
    lease = found.lease
    ours = "tenantry" in lease.holder if lease is not None else False
    if lease is None or not lease.holder or lease.left < -_GRACE or ours:
        return
    yield findings.Finding(
        severity="blocks" if any(one.replicas for one in found.workloads or ()) else "note",
        kind="Lease",
        namespace=found.namespace,
        name=roles.LEASE,
        field="spec.holderIdentity",
        now=f"is held by {findings.quoted(lease.holder)}",
        then="Tenantry's controller waits until that process gives it up, or has ended",
        remedy="stop Capsule",
    )


def hooked(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    spec = snapshot.spec_of(found)
    names = {
        *hooks.UPSTREAM_NAMES,
        spec.overrides.mutating_webhook_configuration_name,
        spec.overrides.validating_webhook_configuration_name,
    }
    services = {hooks.SERVICE, spec.admission.service_name}
    for one in found.hooks or ():
        if one.name == hooks.NAME:
            continue
        # Whose webhooks lead to the Service, which both products call the same.
        leading = [
            hook for hook in one.webhooks
            if (hook[1][0] == found.namespace and hook[1][1] in services)
            or hook[0].endswith(_SUFFIXES)
        ]  # fmt: skip
        if not leading and (one.name not in names or not one.webhooks):
            continue
        known = {*hooks.UPSTREAM_MUTATING, *hooks.UPSTREAM_VALIDATING}
        unknown = sorted({path for _, _, path in leading if path not in known})
        then = (
            "they lead to Tenantry, whose certificate their caBundle does not trust: what they "
            "match is refused"
        )
        if unknown:
            then += f"; Tenantry does not answer at {findings.listed(unknown)}"
        yield findings.Finding(
            severity="blocks",
            kind=one.kind,
            name=one.name,
            now=f"{findings.count(len(one.webhooks), 'webhook')} of Capsule",
            then=then,
            remedy=f"when Capsule is stopped: kubectl delete {one.kind.lower()} {one.name}",
        )
        if any(path == "/generic/metadata" for _, _, path in leading):
            yield findings.Finding(
                severity="changes",
                kind=one.kind,
                name=one.name,
                field="webhooks[]: /generic/metadata",
                now="every object of a tenant's namespaces is labelled "
                f"{constants.OBJECT_TENANT_LABEL}=<tenant>",
                then="new objects are not: the gateway needs no labels",
                remedy="look for selectors that rely on the label",
            )


def rights(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    for name in found.almighty or ():
        yield findings.Finding(
            severity="note",
            kind="ClusterRoleBinding",
            name=name,
            now=f"makes ServiceAccount {found.namespace}/{constants.CONTROLLER_SERVICE_ACCOUNT} "
            "cluster-admin",
            then="can go: Tenantry's controller, which uses the same account, has a role of its own",
            remedy=f"after the switch: kubectl delete clusterrolebinding {shlex.quote(name)}",
        )
