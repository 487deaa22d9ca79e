"""What would become of tenants when Tenantry takes the place of Capsule, said before it does.

A *snapshot* is what a cluster holds; each module here looks at one part of it and yields findings.
Nothing is read or written here: `apps.switching` reads, and puts it all together.
"""
