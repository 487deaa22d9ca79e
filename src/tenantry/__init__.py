"""Multi-tenancy for Kubernetes clusters that run AI workloads.

`docs/architecture.md` is the map: packages, their order, and the rules each follows.
"""
