"""The roles: what a process of Tenantry does.

Each role wires caches, controllers and servers of the domains together; several can share a
process (`roles.run`). Nothing is decided here.
"""
