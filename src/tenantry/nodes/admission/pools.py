"""TenantNodePool objects: refuse what could only go wrong later."""

from __future__ import annotations

import msgspec

from tenantry.api.tenantry import node_pool, resources
from tenantry.nodes import claims, evidence
from tenantry.runtime import admission

POOLS = resources.NODE_POOLS


def _is_pool(review: admission.Review) -> bool:
    return (
        review.is_about(POOLS)
        and not review.subresource
        and review.operation in ("CREATE", "UPDATE")
    )


def validate(review: admission.Review, known: evidence.Evidence) -> admission.Decision:
    """Refuse a specification that cannot hold, and nodes that another pool names.

    That two pools are made at the same moment is settled by the controller: the older has the node.
    """
    try:
        found = msgspec.convert(review.object, node_pool.TenantNodePool, strict=False)
    except msgspec.ValidationError as problem:
        return admission.Deny(f"TenantNodePool is invalid: {problem}", code=422, reason="Invalid")
    wrong = [*claims.problems(found.spec), *_overlaps(found, known)]
    if review.old is not None:
        stored = msgspec.convert(review.old, node_pool.TenantNodePool, strict=False)
        before = {*claims.problems(stored.spec), *_overlaps(stored, known)}
        wrong = [one for one in wrong if one not in before]
        if stored.spec.tenant != found.spec.tenant:
            wrong.append(
                f'spec.tenant: Invalid value: "{found.spec.tenant}": it cannot be changed from '
                f'"{stored.spec.tenant}"; delete the pool and make another'
            )
    if wrong:
        text = f'TenantNodePool "{review.name}" is invalid: {"; ".join(wrong)}'
        return admission.Deny(text, code=422, reason="Invalid")
    return admission.Allow()


def _overlaps(found: node_pool.TenantNodePool, known: evidence.Evidence) -> list[str]:
    named = {
        node: pool.metadata.name
        for pool in known.pools
        if pool.metadata.name != found.metadata.name and not pool.metadata.deletion_timestamp
        for node in pool.spec.nodes
    }
    return [
        f'spec.nodes[{index}]: Invalid value: "{node}": it is in pool "{named[node]}"; '
        "a node is in one pool at most"
        for index, node in enumerate(found.spec.nodes)
        if node in named
    ]


VALIDATING = (admission.Step(name="nodes.pools.valid", matches=_is_pool, decide=validate),)
