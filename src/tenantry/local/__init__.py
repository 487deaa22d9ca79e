"""A whole Kubernetes platform on one machine: real binaries, supervised, gone when told so.

A *platform* has a name and a directory; the directory holds its *plan* (what runs, on which
ports), certificates, data and logs, and survives `down`. A *unit* is a process or a one-time task
of the plan; units depend on each other. A *role* is a process of Tenantry itself, given as a
command line: this package starts it, and knows nothing about it. The *supervisor* is the one
process per platform that owns all others; when it dies, they die.

Not here: nodes that run containers. Nodes are simulated by kwok.
"""
