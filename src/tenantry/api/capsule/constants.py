"""Names that outlive a switch between Capsule and Tenantry, letter for letter.

Labels and annotations stand on users' objects, finalizers hold deletions, field managers own
fields, condition and event reasons are what scripts wait for: none of them may be renamed.
"""

from __future__ import annotations

GROUP = "capsule.clastix.io"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"

TRUE = "true"

# ---- labels -------------------------------------------------------------------------------------

#: On namespaces (authoritative only together with the ownerReference and its uid) and on
#: PersistentVolumes: the name of their tenant.
TENANT_LABEL = "capsule.clastix.io/tenant"
#: On objects managed for a tenant; on a TenantOwner it names a tenant that it owns.
MANAGED_TENANT_LABEL = "projectcapsule.dev/tenant"
#: On namespaces and Tenants: their own name, so that selectors can ask for it.
NAME_LABEL = "kubernetes.io/metadata.name"
#: Who keeps an object: `MANAGED_BY_CONTROLLER`, `MANAGED_BY_RESOURCES`, `MANAGED_BY_REPLICATIONS`.
MANAGED_BY_LABEL = "projectcapsule.dev/managed-by"
MANAGED_BY_CONTROLLER = "controller"
MANAGED_BY_RESOURCES = "resources"
MANAGED_BY_REPLICATIONS = "replications"
#: What made an object: `CREATED_BY_*`.
CREATED_BY_LABEL = "projectcapsule.dev/created-by"
CREATED_BY_REPLICATIONS = "replications"
CREATED_BY_CONTROLLER = "controller"
CREATED_BY_RBAC = "rbac-controller"
#: On every object of a tenant's namespaces, value = tenant; capsule-proxy selects by it.
OBJECT_TENANT_LABEL = "capsule.clastix.io/managed-by"
RESOURCE_QUOTA_LABEL = "capsule.clastix.io/resource-quota"
LIMIT_RANGE_LABEL = "capsule.clastix.io/limit-range"
NETWORK_POLICY_LABEL = "capsule.clastix.io/network-policy"
#: On managed RoleBindings, value = the hash in their name.
ROLE_BINDING_LABEL = "capsule.clastix.io/role-binding"
POOL_LABEL = "projectcapsule.dev/pool"
GLOBAL_RESOURCE_QUOTA_LABEL = "projectcapsule.dev/global-resource-quota"
RULE_QUOTA_LABEL = "projectcapsule.dev/rule-quota"
#: `TRUE` on the namespaces of a cordoned tenant; set by hand it cordons one namespace.
CORDONED_LABEL = "projectcapsule.dev/cordoned"
#: `TRUE` on namespaces of a tenant that counts custom resources (`RESOURCE_QUOTA_ANNOTATION`).
CUSTOM_RESOURCES_LABEL = "projectcapsule.dev/custom-resources"
#: `TRUE` on a ServiceAccount: make it an owner of its tenant.
PROMOTE_OWNER_LABEL = "owner.projectcapsule.dev/promote"
#: `TRUE` on a ServiceAccount: give it the roles of `rules[].permissions.promotions`.
PROMOTE_LABEL = "projectcapsule.dev/promote"
CAPSULE_NAME_LABEL = "projectcapsule.dev/name"
RESOURCE_ORIGIN_LABEL = "projectcapsule.dev/resource-origin"
FREEZE_LABEL = "projectcapsule.dev/freeze"
#: On objects replicated by Capsule 0.11.
LEGACY_RESOURCES_LABEL = "capsule.clastix.io/resources"
#: On ClusterRoles: their rules become the controller's own.
AGGREGATE_LABEL = "projectcapsule.dev/aggregate-to-controller"
AGGREGATE_INSTANCE_LABEL = "projectcapsule.dev/aggregate-to-controller-instance"

# ---- annotations --------------------------------------------------------------------------------

RELEASE_ANNOTATION = "projectcapsule.dev/release"
RECONCILE_ANNOTATION = "reconcile.projectcapsule.dev/requestedAt"
#: On namespaces, read by the PodNodeSelector admission plugin: ``k=v`` pairs, sorted, by comma.
NODE_SELECTOR_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
#: On namespaces: what the tenant allows, joined by comma, and the regular expression.
INGRESS_CLASSES_ANNOTATION = "capsule.clastix.io/ingress-classes"
INGRESS_CLASSES_REGEX_ANNOTATION = "capsule.clastix.io/ingress-classes-regexp"
STORAGE_CLASSES_ANNOTATION = "capsule.clastix.io/storage-classes"
STORAGE_CLASSES_REGEX_ANNOTATION = "capsule.clastix.io/storage-classes-regexp"
REGISTRIES_ANNOTATION = "capsule.clastix.io/allowed-registries"
REGISTRIES_REGEX_ANNOTATION = "capsule.clastix.io/allowed-registries-regexp"
#: On Tenants converted from v1beta1, and copied to their namespaces.
FORBIDDEN_LABELS_ANNOTATION = "capsule.clastix.io/forbidden-namespace-labels"
FORBIDDEN_LABELS_REGEX_ANNOTATION = "capsule.clastix.io/forbidden-namespace-labels-regexp"
FORBIDDEN_ANNOTATIONS_ANNOTATION = "capsule.clastix.io/forbidden-namespace-annotations"
FORBIDDEN_ANNOTATIONS_REGEX_ANNOTATION = "capsule.clastix.io/forbidden-namespace-annotations-regexp"
#: On Tenants: refuse their deletion (before `spec.preventDeletion` existed).
PROTECTED_ANNOTATION = "capsule.clastix.io/protected"
#: On Tenants of v1beta1: freeze them; refuse wildcard host names; and, followed by ``/`` and an
#: owner's place or `<kind>.<name>`, its roles.
CORDON_ANNOTATION = "capsule.clastix.io/cordon"
DENY_WILDCARD_ANNOTATION = "capsule.clastix.io/deny-wildcard"
OWNER_ROLES_ANNOTATION = "clusterrolenames.capsule.clastix.io"
#: Ours, on Tenants of v1beta1: what only v1beta2 can say.
KEPT_ANNOTATION = "tenantry.io/v1beta2"
#: Ours, on Tenants: when it is deleted, take finalizers off what is left in its namespaces.
STRIP_ANNOTATION = "tenantry.io/strip-finalizers"
#: Ours, in an administrator's update of a namespace, never stored: whose it shall be.
BREAK_GLASS_ANNOTATION = "tenantry.io/break-glass"
#: On Tenants, followed by ``/<plural.group_version>``: how many may exist, and how many do.
RESOURCE_QUOTA_ANNOTATION = "quota.resources.capsule.clastix.io"
RESOURCE_USED_ANNOTATION = "used.resources.capsule.clastix.io"
#: On ResourceQuotas of tenant scope, followed by the resource: the tenant's limit and use.
QUOTA_HARD_ANNOTATION = "quota.capsule.clastix.io/hard-"
QUOTA_USED_ANNOTATION = "quota.capsule.clastix.io/used-"
#: Ours, on RuleStatuses: the labels and annotations that objects of the namespace may carry by it.
MARKS_ANNOTATION = "tenantry.io/marks"
#: On admission events.
AUDIT_REQUEST_UID = "audit.projectcapsule.dev/request-uid"
AUDIT_USERNAME = "audit.projectcapsule.dev/username"
AUDIT_RULE_SET = "audit.projectcapsule.dev/rule-set"
AUDIT_RULE_ACTION = "audit.projectcapsule.dev/rule-action"

#: Keys below these prefixes are the platform's own; owners may not set them.
KEY_PREFIXES = ("capsule.clastix.io/", "projectcapsule.dev/")

# ---- finalizers and field managers --------------------------------------------------------------

FINALIZER = "controller.projectcapsule.dev/finalize"
LEGACY_FINALIZER = "capsule.clastix.io/resources"

FIELD_MANAGER = "projectcapsule.dev/controller"
REPLICATION_METADATA_MANAGER = "projectcapsule.dev/resource/controller"
REPLICATION_MANAGER_PREFIX = "projectcapsule.dev/resource/"
#: Followed by eight hex digits.
RULE_STATUS_MANAGER_PREFIX = "projectcapsule.dev/rulestatus-"

# ---- names of managed objects -------------------------------------------------------------------

RULE_STATUS_NAME = "capsule-managed-rules"
#: Followed by `core.names`' hash of role and subjects.
ROLE_BINDING_PREFIX = "capsule:managed:"
#: `capsule-<tenant>-<index>` for quotas, limit ranges and network policies.
MANAGED_PREFIX = "capsule-"
CONFIGURATION_NAME = "default"
USER_GROUP = "projectcapsule.dev"
CONTROLLER_NAMESPACE = "capsule-system"
CONTROLLER_SERVICE_ACCOUNT = "capsule"
PROVISIONER_ROLE = "capsule-namespace-provisioner"
DELETER_ROLE = "capsule-namespace-deleter"
OWNER_ROLES = ("admin", DELETER_ROLE)

# ---- conditions ---------------------------------------------------------------------------------

READY = "Ready"
CORDONED = "Cordoned"
TERMINATING = "Terminating"
NOT_READY = "NotReady"
ASSIGNED = "Assigned"
BOUND = "Bound"
EXHAUSTED = "Exhausted"
#: Ours: False while the spec sets fields whose enforcement does not exist yet.
ENFORCED = "Enforced"

SUCCEEDED_REASON = "Succeeded"
FAILED_REASON = "Failed"
ACTIVE_REASON = "Active"
CORDONED_REASON = "Cordoned"
TERMINATING_REASON = "Terminating"
RECONCILING_REASON = "Reconciling"
POOL_EXHAUSTED_REASON = "PoolExhausted"
QUEUE_EXHAUSTED_REASON = "QueueExhausted"
NAMESPACE_EXHAUSTED_REASON = "NamespaceExhausted"
NO_EXHAUSTIONS_REASON = "NoExhaustions"
IN_USE_REASON = "InUse"
UNUSED_REASON = "Unused"
PENDING_UNMANAGED_REASON = "PendingUnmanagedContent"
ENFORCED_REASON = "AllFieldsEnforced"
NOT_ENFORCED_REASON = "FieldsNotEnforced"

READY_MESSAGE = "reconciled"
RECONCILING_MESSAGE = "processing"
NOT_CORDONED_MESSAGE = "not cordoned"
TENANT_CORDONED_MESSAGE = "Tenant is cordoned"
NAMESPACE_CORDONED_MESSAGE = "namespace is cordoned"

# ---- events -------------------------------------------------------------------------------------

EVENT_CONTROLLER = "controller.projectcapsule.dev"
EVENT_INSTANCE = "capsule-admission"

CORDONED_ACTION = "Cordoned"
UNCORDONED_ACTION = "UnCordoned"
RECONCILED_ACTION = "Reconciled"
DISASSOCIATING_ACTION = "Disassociating"
MUTATED_ACTION = "Mutated"
DENIED_ACTION = "ValidationDenied"
RULE_AUDIT_ACTION = "RuleAudit"

TENANT_ASSIGNED_EVENT = "TenantAssigned"
TENANT_DEFAULTED_EVENT = "TenantDefaulted"
OVERPROVISIONED_EVENT = "Overprovisioned"
CORDONED_EVENT = "Cordoned"
UNCORDONED_EVENT = "UnCordoned"
NAMESPACE_HIJACK_EVENT = "ReasonNamespacePatch"
INVALID_PREFIX_EVENT = "InvalidTenantPrefix"
PROMOTION_DENIED_EVENT = "ReasonPromotionDenied"
FORBIDDEN_LABEL_EVENT = "ForbiddenLabel"
FORBIDDEN_ANNOTATION_EVENT = "ForbiddenAnnotation"
FORBIDDEN_METADATA_EVENT = "ForbiddenMetadata"
FORBIDDEN_NODE_SELECTOR_EVENT = "ForbiddenNodeSelectorUpdate"
#: Ours: an administrator mended a namespace.
BREAK_GLASS_EVENT = "BreakGlass"
DISASSOCIATED_EVENT = "Disassociated"
CROSS_TENANT_EVENT = "CrossTenantReference"
ADMISSION_FAILED_EVENT = "AdmissionFailed"
QUOTA_EXCEEDED_EVENT = "QuotaExceeded"
FORBIDDEN_PULL_POLICY_EVENT = "ForbiddenPullPolicy"
MISSING_FQCI_EVENT = "MissingFQCI"
FORBIDDEN_REGISTRY_EVENT = "ForbiddenContainerRegistry"
FORBIDDEN_SCHEDULER_EVENT = "ForbiddenScheduler"
FORBIDDEN_QOS_EVENT = "ForbiddenQoSClass"
FORBIDDEN_TOLERATION_EVENT = "ForbiddenToleration"  # Ours, as the next.
FORBIDDEN_NODES_EVENT = "ForbiddenNodeSelector"
FORBIDDEN_RESOURCES_EVENT = "ForbiddenPodResources"
FORBIDDEN_PRIORITY_EVENT = "ForbiddenPriorityClass"
FORBIDDEN_RUNTIME_EVENT = "ForbiddenRuntimeClass"
FORBIDDEN_STORAGE_EVENT = "ForbiddenStorageClass"
MISSING_STORAGE_EVENT = "MissingStorageClass"
FORBIDDEN_INGRESS_CLASS_EVENT = "ForbiddenIngressClass"
MISSING_INGRESS_CLASS_EVENT = "MissingIngressClass"
FORBIDDEN_GATEWAY_CLASS_EVENT = "ForbiddenGatewayClass"
MISSING_GATEWAY_CLASS_EVENT = "MissingGatewayClass"
FORBIDDEN_DEVICE_CLASS_EVENT = "ForbiddenDeviceClass"
MISSING_DEVICE_CLASS_EVENT = "MissingDeviceClass"
WILDCARD_EVENT = "WildcardDenied"
HOSTNAME_NOT_VALID_EVENT = "IngressHostnameNotValid"
HOSTNAME_EMPTY_EVENT = "IngressHostnameEmpty"
HOSTNAME_COLLISION_EVENT = "IngressHostnameCollision"
FORBIDDEN_HOSTNAME_EVENT = "ForbiddenIngressHostname"
FORBIDDEN_EXTERNAL_IP_EVENT = "ForbiddenExternalServiceIP"
FORBIDDEN_LOAD_BALANCER_EVENT = "ForbiddenLoadBalancer"
FORBIDDEN_EXTERNAL_NAME_EVENT = "ForbiddenExternalName"
FORBIDDEN_NODE_PORT_EVENT = "ForbiddenNodePort"
FORBIDDEN_SERVICE_TYPE_EVENT = "ForbiddenServiceType"
FORBIDDEN_CIDR_EVENT = "ForbiddenLoadBalancerCIDR"
RULE_AUDIT_EVENT = "NamespaceRuleAudit"
