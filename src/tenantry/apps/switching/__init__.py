"""What a switch from Capsule to Tenantry changes in a cluster.

`reading` gathers a `snapshot`, without writing anything; the other modules judge it and are pure.
"""
