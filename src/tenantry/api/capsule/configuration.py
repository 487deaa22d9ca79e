"""CapsuleConfiguration: the settings of the platform, one object named `default`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common, constants

FailurePolicy: TypeAlias = Literal["Ignore", "Fail"]
MatchPolicy: TypeAlias = Literal["Exact", "Equivalent"]
SideEffects: TypeAlias = Literal["None", "NoneOnDryRun", "Some", "Unknown"]
ReinvocationPolicy: TypeAlias = Literal["Never", "IfNeeded"]


def _administration_roles() -> list[str]:
    return [constants.DELETER_ROLE]


def _promotion_roles() -> list[str]:
    return [constants.PROVISIONER_ROLE, constants.DELETER_ROLE]


class NodeMetadata(common.Wire, kw_only=True):
    """What users may not set on nodes."""

    forbidden_labels: common.Forbidden | None = None
    """Label keys that users may not set on nodes."""
    forbidden_annotations: common.Forbidden | None = None
    """Annotation keys that users may not set on nodes."""


class Overrides(common.Wire, kw_only=True):
    """Names of the platform's own objects."""

    tls_secret_name: str = msgspec.field(name="TLSSecretName", default="capsule-tls")
    """Secret with the certificate of the webhook server, in the controller's namespace.
    Default: `capsule-tls`."""
    mutating_webhook_configuration_name: str = "capsule-mutating-webhook-configuration"
    """Deprecated: use `admission.mutating.name`.
    Default: `capsule-mutating-webhook-configuration`."""
    validating_webhook_configuration_name: str = "capsule-validating-webhook-configuration"
    """Deprecated: use `admission.validating.name`.
    Default: `capsule-validating-webhook-configuration`."""


class ServiceReference(common.Wire, kw_only=True):
    """A Service in the cluster."""

    namespace: str
    """Namespace of the Service."""
    name: str
    """Name of the Service."""
    path: str | None = None
    """Path put before that of each webhook."""
    port: Annotated[int, schema.INT32] | None = None
    """Port of the Service. Default: 443."""


class WebhookClient(common.Wire, kw_only=True):
    """How the API server reaches the webhook server; either `url` or `service`."""

    url: str | None = None
    """Address outside the cluster, e.g. `https://10.0.0.1:9443`."""
    service: ServiceReference | None = None
    """Service inside the cluster."""
    ca_bundle: Annotated[str, schema.facts(format="byte")] | None = None
    """Certificates (PEM, base64) that the server's certificate is checked against."""


class WebhookOptions(common.Wire, kw_only=True):
    """Whose requests a webhook is asked about."""

    capsule_users: bool = False
    """Ask about requests of the platform's users only. Default: false."""
    administrators: bool = False
    """Ask about requests of administrators only. Default: false."""


class ValidatingWebhook(common.Wire, kw_only=True):
    """One webhook of the validating configuration."""

    name: str
    """Name of the webhook, e.g. `namespaces.projectcapsule.dev`."""
    path: str
    """Path of the webhook on the server, e.g. `/namespaces/validating`."""
    opts: WebhookOptions | None = None
    """Whose requests the webhook is asked about. Default: everybody's."""
    rules: Annotated[list[dict[str, Any]], schema.Core("WebhookRules")] = []
    """Operations and resources that the webhook is asked about."""
    failure_policy: FailurePolicy | None = None
    """What happens when the webhook does not answer. Default: `Fail`."""
    match_policy: MatchPolicy | None = None
    """Whether equivalent requests of other API versions match too. Default: `Equivalent`."""
    namespace_selector: common.Selector | None = None
    """Namespaces that the webhook is for. Default: all."""
    object_selector: common.Selector | None = None
    """Objects that the webhook is for. Default: all."""
    side_effects: SideEffects
    """Whether the webhook changes anything besides the object."""
    timeout_seconds: Annotated[int, schema.INT32] | None = None
    """How long the API server waits, 1 to 30. Default: 10."""
    admission_review_versions: list[str]
    """Versions of AdmissionReview that the server understands, the preferred one first."""
    match_conditions: Annotated[list[dict[str, Any]], schema.Core("MatchConditions")] = []
    """CEL conditions that must all hold for the webhook to be asked."""


class MutatingWebhook(ValidatingWebhook, kw_only=True):
    """One webhook of the mutating configuration."""

    reinvocation_policy: ReinvocationPolicy | None = None
    """Whether the webhook is asked again after others changed the object. Default: `Never`."""


class AdmissionWebhooks(common.Wire, kw_only=True):
    """What both webhook configurations have."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "has(self.client.url) != has(self.client.service)",
            "client must have either url or service",
        ),
    )

    name: Annotated[str, schema.DNS_LABEL] = ""
    """Name of the webhook configuration."""
    labels: dict[str, str] = {}
    """Labels for the webhook configuration."""
    annotations: dict[str, str] = {}
    """Annotations for the webhook configuration."""
    client: WebhookClient
    """How the API server reaches the webhook server."""


class MutatingAdmission(AdmissionWebhooks, kw_only=True):
    """The mutating webhook configuration."""

    webhooks: list[MutatingWebhook] = []
    """Webhooks of the configuration."""


class ValidatingAdmission(AdmissionWebhooks, kw_only=True):
    """The validating webhook configuration."""

    webhooks: list[ValidatingWebhook] = []
    """Webhooks of the configuration."""


class Admission(common.Wire, kw_only=True):
    """Webhook configurations to generate."""

    service_name: str = "capsule-webhook-service"
    """Service in front of the webhook server. Default: `capsule-webhook-service`."""
    mutating: MutatingAdmission | None = None
    """Mutating webhook configuration. Default: none is generated."""
    validating: ValidatingAdmission | None = None
    """Validating webhook configuration. Default: none is generated."""


class Rbac(common.Wire, kw_only=True):
    """Roles that the platform hands out."""

    administration_cluster_roles: list[str] = msgspec.field(default_factory=_administration_roles)
    """ClusterRoles that administrators get in tenants' namespaces.
    Default: `[capsule-namespace-deleter]`."""
    promotion_cluster_roles: list[str] = msgspec.field(default_factory=_promotion_roles)
    """ClusterRoles that promoted ServiceAccounts get in their tenant's namespaces.
    Default: `[capsule-namespace-provisioner, capsule-namespace-deleter]`."""
    deleter: str = constants.DELETER_ROLE
    """Name of the ClusterRole to delete namespaces. Default: `capsule-namespace-deleter`."""
    provisioner: str = constants.PROVISIONER_ROLE
    """Name of the ClusterRole to create namespaces. Default: `capsule-namespace-provisioner`."""


class Impersonation(common.Wire, kw_only=True):
    """The identity that replication acts with."""

    endpoint: str = ""
    """Address of the API server for impersonated requests. Default: the controller's own."""
    ca_secret_namespace: Annotated[str, schema.DNS_LABEL] = ""
    """Namespace of the Secret with the CA certificate for `endpoint`."""
    ca_secret_name: Annotated[str, schema.DNS_LABEL] = ""
    """Name of the Secret with the CA certificate for `endpoint`."""
    ca_secret_key: str = msgspec.field(default="ca.crt")
    """Key in that Secret. Default: `ca.crt`."""
    skip_tls_verify: bool = False
    """Do not check the certificate of `endpoint`. Default: false."""
    global_default_service_account: Annotated[str, schema.DNS_LABEL] = ""
    """ServiceAccount for GlobalTenantResources that name none."""
    global_default_service_account_namespace: Annotated[str, schema.DNS_LABEL] = ""
    """Namespace of that ServiceAccount."""
    tenant_default_service_account: Annotated[str, schema.DNS_LABEL] = ""
    """ServiceAccount for TenantResources that name none, in their own namespace."""


class Events(common.Wire, kw_only=True):
    """Events of the platform."""

    namespace: str = "default"
    """Namespace for events about cluster-scoped objects. Default: `default`."""


class CapsuleConfigurationSpec(common.Wire, kw_only=True):
    """Settings of the platform."""

    users: list[common.User] = []
    """Users of the platform; only they can own tenants and create namespaces in them, e.g.
    `{kind: Group, name: projectcapsule.dev}`."""
    user_names: list[str] = []
    """Deprecated: use `users`. Names of users."""
    user_groups: list[str] = []
    """Deprecated: use `users`. Names of groups."""
    ignore_user_with_groups: list[str] = []
    """Members of these groups are never users of the platform, whatever `users` says."""
    administrators: list[common.User] = []
    """Owners of every tenant. They must name the tenant of a namespace by its label."""
    allow_service_account_promotion: bool = False
    """ServiceAccounts may be made owners of their tenant by a label. Default: false."""
    force_tenant_prefix: bool = False
    """Namespaces must be called `<tenant>-...`. Default: false; a Tenant may say otherwise."""
    protected_namespace_regex: str = ""
    """Users may not create namespaces whose name matches this regular expression (RE2), e.g.
    `^(kube|capsule)-.*`."""
    node_metadata: NodeMetadata | None = None
    """Labels and annotations that users may not set on nodes."""
    overrides: Annotated[
        Overrides,
        schema.facts(
            default={
                "TLSSecretName": "capsule-tls",
                "mutatingWebhookConfigurationName": "capsule-mutating-webhook-configuration",
                "validatingWebhookConfigurationName": "capsule-validating-webhook-configuration",
            }
        ),
    ] = msgspec.field(default_factory=Overrides)
    """Names of the platform's own objects."""
    enable_tls_reconciler: bool = msgspec.field(name="enableTLSReconciler", default=False)
    """The platform makes and renews the certificate of its webhook server. Default: false."""
    admission: Admission = msgspec.field(default_factory=Admission)
    """Webhook configurations to generate."""
    rbac: Annotated[Rbac, schema.facts(default={})] = msgspec.field(default_factory=Rbac)
    """Roles that the platform hands out."""
    cache_invalidation: str = "24h"
    """How often internal caches are rebuilt, as a duration such as `30m`. Default: `24h`."""
    impersonation: Impersonation = msgspec.field(default_factory=Impersonation)
    """Identity that replication acts with."""
    events: Annotated[Events, schema.facts(default={"namespace": "default"})] = msgspec.field(
        default_factory=Events
    )
    """Events of the platform."""


class CapsuleConfigurationStatus(common.Wire, kw_only=True):
    """Settings in force."""

    users: list[common.User] = []
    """Users in force: those of the spec and every TenantOwner with `aggregate`."""
    tenants: list[str] = []
    """Names of all tenants, sorted."""
    conditions: common.Conditions = []
    """State of the configuration, by aspect."""
    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""


class CapsuleConfiguration(common.Wire, kw_only=True):
    """Settings of the platform; the object named `default` counts."""

    metadata: meta.ObjectMeta
    spec: CapsuleConfigurationSpec = msgspec.field(default_factory=CapsuleConfigurationSpec)
    """Settings of the platform."""
    status: CapsuleConfigurationStatus = msgspec.field(default_factory=CapsuleConfigurationStatus)
    """Settings in force; written by the controller."""
