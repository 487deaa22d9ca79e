"""What may run in a tenant's namespaces: rules and the deprecated fields, decided in one way.

*Clause*: one statement of a Tenant about a kind of value: allow, deny or audit what matches.
*Rule set*: clauses about one kind of value in order, with the words of its refusal; `engine.judge`
decides all of them. *Policy*: the rule sets of one namespace, compiled from its Tenant when one of
the two changes, never per request. The deprecated fields of a Tenant compile to rule sets too.

Not here: who owns a namespace (`ownership`), what a namespace itself carries (`metadata`), budgets.
"""
