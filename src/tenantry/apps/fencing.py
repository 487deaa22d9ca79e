"""The steps of dedicated nodes as part of the one call, on the evidence of the tenancy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenantry.api.tenantry import resources as tenantry
from tenantry.directory import identity
from tenantry.nodes import evidence, fence, state
from tenantry.nodes.admission import pods, pools
from tenantry.runtime import admission
from tenantry.tenancy import evidence as tenancy

Step = admission.Step[tenancy.Evidence]

MASTERS = "system:masters"
_NODES = "system:nodes"
_NOBODY = (identity.SERVICE_ACCOUNT_PREFIX, "system:anonymous")


class Fencing:
    """Gives the steps; they read the pools from memory when they decide."""

    def __init__(self, known: state.Pools) -> None:
        self._known = known
        self.mutating = self._adapted(pods.MUTATING)
        self.validating = self._adapted((*pools.VALIDATING, *pods.VALIDATING))

    def _adapted(self, steps: Sequence[admission.Step[evidence.Evidence]]) -> tuple[Step, ...]:
        return tuple(
            admission.Step(
                name=step.name,
                matches=step.matches,
                decide=self._deciding(step.decide),
                budget=step.budget,
            )
            for step in steps
        )

    def _deciding(
        self, decide: Callable[[admission.Review, evidence.Evidence], admission.Decision]
    ) -> Callable[[admission.Review, tenancy.Evidence], admission.Decision]:
        def decided(review: admission.Review, known: tenancy.Evidence) -> admission.Decision:
            return decide(review, self._evidence(review, known))

        return decided

    def _evidence(self, review: admission.Review, known: tenancy.Evidence) -> evidence.Evidence:
        if review.group == tenantry.NODE_POOLS.group:
            return evidence.Evidence(pools=self._known.pools.list())
        name = known.tenant_name
        if name is None:
            return evidence.Evidence()
        return evidence.Evidence(
            around=fence.choosing(self._known.fence_of(name), known.node_selector),
            system=self._is_system(known, binding=review.kind == "Binding"),
        )

    def _is_system(self, known: tenancy.Evidence, *, binding: bool) -> bool:
        """Tell whether the requester places pods as part of the platform.

        The cluster's controllers make pods from templates that tenants write, so what they create
        is judged; only what binds pods is a scheduler.
        """
        who = known.requester
        if known.requester_class is identity.Class.ADMIN or MASTERS in who.groups:
            return True
        if _NODES in who.groups:
            return True
        if not binding:
            return False
        if who.service_account is not None:
            # By evidence, which asks about a namespace that memory has not heard of.
            return known.home is None
        # Neither what looks like an account and is none, nor those who did not say who they are.
        return who.name.startswith("system:") and not who.name.startswith(_NOBODY)
