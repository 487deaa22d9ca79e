"""What becomes of the CapsuleConfiguration; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tenantry.api.capsule import configuration, constants
from tenantry.apps import certificates, hooks
from tenantry.apps.switching import snapshot
from tenantry.tenancy import validation
from tenantry.tenancy.checking import findings, tenants


def configured(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    if found.configured is None:
        return
    about = {"kind": "CapsuleConfiguration", "name": found.configuration_name}
    if found.broken:
        yield findings.Finding(
            severity="blocks",
            now=f"cannot be read: {found.broken}",
            then="nobody is a user of the platform",
            remedy=f"kubectl edit capsuleconfiguration {found.configuration_name}",
            **about,
        )
        return
    if not found.configured:
        yield findings.Finding(
            severity="note",
            now="is not there",
            then=f"is made at the first start, with Group {constants.USER_GROUP} as users",
            **about,
        )
        return
    assert found.configuration is not None
    spec = found.configuration.spec
    for problem in findings.some(validation.configuration_problems(found.configuration)):
        yield findings.Finding(
            severity="blocks",
            field=problem.partition(" ")[0].rstrip(":"),
            now=problem,
            then="is refused when the configuration is next changed, and has no effect until then",
            remedy=f"kubectl edit capsuleconfiguration {found.configuration_name}",
            **about,
        )
    for field, value in (("userNames", spec.user_names), ("userGroups", spec.user_groups)):
        if value:
            yield findings.Finding(
                severity="note",
                field=f"spec.{field}",
                now=f"is deprecated and names {findings.listed(value)}",
                then="counts as part of spec.users",
                **about,
            )
    yield from _ignored(spec, about)
    if found.tenancy.roles is not None:
        known = {one.name: one for one in found.tenancy.roles}
        for field, role in tenants.configured_roles(spec):
            yield from tenants.role_findings(
                "CapsuleConfiguration", found.configuration_name, field, role,
                roles=known, almighty=bool(found.almighty),
            )  # fmt: skip


def _ignored(
    spec: configuration.CapsuleConfigurationSpec, about: Mapping[str, str]
) -> Iterator[findings.Finding]:
    usual = configuration.CapsuleConfigurationSpec()
    for side, admission, answered in (
        ("mutating", spec.admission.mutating, hooks.UPSTREAM_MUTATING),
        ("validating", spec.admission.validating, hooks.UPSTREAM_VALIDATING),
    ):
        if admission is None:
            continue
        deaf = [hook.name for hook in admission.webhooks if hook.path not in answered]
        if deaf:
            yield findings.Finding(
                severity="changes",
                field=f"spec.admission.{side}.webhooks",
                now=f"defines {findings.count(len(deaf), 'webhook')} at paths that Tenantry does "
                f"not answer at: {findings.listed(deaf)}",
                then="has no effect",
                remedy="take them out of the configuration",
                **about,
            )
        if len(deaf) < len(admission.webhooks):
            rest = len(admission.webhooks) - len(deaf)
            yield findings.Finding(
                severity="note",
                field=f"spec.admission.{side}",
                now=f"defines {findings.count(rest, 'webhook')} that Tenantry answers",
                then="exempts nobody: Tenantry's own webhooks are asked besides, whatever selectors, "
                "conditions and failurePolicy say here",
                **about,
            )
    for field, value, default in (
        ("impersonation", spec.impersonation, usual.impersonation),
        ("cacheInvalidation", spec.cache_invalidation, usual.cache_invalidation),
    ):
        if value != default:
            yield findings.Finding(
                severity="note",
                field=f"spec.{field}",
                now="is set",
                then="has no effect in this release",
                **about,
            )


def certificate(found: snapshot.Snapshot) -> Iterator[findings.Finding]:
    if found.configuration is None:
        return
    spec = found.configuration.spec
    name = spec.overrides.tls_secret_name
    about = {"kind": "Secret", "namespace": found.namespace, "name": name}
    if found.secret is None or found.secret.ours:
        return
    if spec.enable_tls_reconciler and name != certificates.SECRET:
        yield findings.Finding(
            severity="blocks",
            now="holds Capsule's certificate, and the configuration (enableTLSReconciler, "
            "overrides.TLSSecretName) wants ours there",
            then="is left alone, so the webhook role has no certificate and does not get ready",
            remedy="kubectl patch capsuleconfiguration "
            f"{found.configuration_name} --type=merge -p "
            f'\'{{"spec":{{"overrides":{{"TLSSecretName":"{certificates.SECRET}"}}}}}}\', '
            "or delete the Secret when Capsule is stopped",
            **about,
        )
    else:
        yield findings.Finding(
            severity="note",
            now="holds Capsule's certificate",
            then=f"is not used: Tenantry keeps its own in Secret {certificates.SECRET}",
            remedy="delete it, and what renews it, after the switch",
            **about,
        )
