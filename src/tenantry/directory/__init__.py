"""Who is who: requester -> class, namespace -> tenant -> owners.

*Requester*: the user of a request, with groups. *Administrator*: owner of every tenant. *Capsule
user*: somebody who may create namespaces through a tenant; *owner*: a Capsule user to whom a
tenant gives roles in all its namespaces. All of it is a pure index over Tenant, TenantOwner,
CapsuleConfiguration and Namespace objects; it decides nothing about what an owner may do
(that is `tenantry.tenancy`) and reads nothing by itself.
"""
