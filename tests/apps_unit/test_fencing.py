"""Who counts as a scheduler, by the evidence of the request and not by memory alone."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api.capsule import configuration
from tenantry.apps import fencing
from tenantry.directory import identity
from tenantry.directory import state as directory
from tenantry.nodes import fence, state
from tenantry.runtime import admission
from tenantry.tenancy import evidence


class Remembered(state.Pools):
    """Memory to which no watch has told anything yet."""

    def __init__(self) -> None:
        self.index = directory.Directory((), "default")

    def fence_of(self, tenant: str) -> fence.Fence:
        return fence.fence([], tenant)


def decided(user: str, home: str | None) -> admission.Decision:
    groups = ["system:serviceaccounts"] if user.startswith("system:serviceaccount:") else []
    review = admission.Review(
        uid="u", operation="CREATE", version="v1", resource="pods", kind="Binding",
        subresource="binding", name="p", namespace="team-a",
        object={"target": {"kind": "Node", "name": "node-1"}},
        user=admission.UserInfo(username=user, groups=groups),
    )  # fmt: skip
    known = evidence.Evidence(
        requester=identity.Requester(user, frozenset(groups)),
        requester_class=identity.Class.UNKNOWN,
        config=configuration.CapsuleConfigurationSpec(),
        tenants={},
        owners_of=lambda _: [],
        tenant_name="team",
        home=home,
    )
    (step,) = (
        one for one in fencing.Fencing(Remembered()).validating if one.name == "nodes.pods.binding"
    )
    assert step.matches(review)
    found: Any = step.decide(review, known)
    assert isinstance(found, (admission.Allow, admission.Deny))
    return found


@pytest.mark.parametrize(
    ("user", "home", "allowed"),
    [
        ("system:kube-scheduler", None, True),
        ("system:serviceaccount:schedulers:kai", None, True),
        # A namespace made a moment ago, which the watch has not told of.
        ("system:serviceaccount:team-new:kai", "team", False),
        ("system:anonymous", None, False),
        ("system:serviceaccount:forged", None, False),
        ("alice", None, False),
    ],
)
def test_who_binds_pods_of_tenants(user: str, home: str | None, allowed: bool) -> None:
    assert isinstance(decided(user, home), admission.Allow) is allowed
