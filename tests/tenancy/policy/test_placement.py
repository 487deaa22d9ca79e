"""Where pods may run: rules about tolerations and node selectors."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.tenancy.admission import pods

from . import policies

Object = dict[str, Any]


def refusal(spec: Object, *rules: Object, old: Object | None = None) -> str:
    """Return why a pod is refused; "" when it is not."""
    before = None if old is None else {"metadata": {"name": "x"}, "spec": old}
    review = policies.a_review("pods", {"metadata": {"name": "x"}, "spec": spec}, before)
    compiled = policies.policy(rules=list(rules))
    return policies.message(pods.validate(review, policies.known(compiled)))


def rule(action: str, **workloads: Any) -> Object:
    return {"enforce": {"action": action, "workloads": workloads}}


def tolerating(*keys: str, **more: Any) -> Object:
    found = [{"key": key, "operator": "Exists"} if key else {"operator": "Exists"} for key in keys]
    return {"tolerations": found, **more}


GPU = rule("allow", tolerations=[{"exact": ["nvidia.com/gpu"]}])
NO_MASTERS = rule("deny", tolerations=[{"exp": "^node-role[.]kubernetes[.]io/"}])
MASTER = "node-role.kubernetes.io/control-plane"


@pytest.mark.parametrize(
    ("rules", "spec", "wrong"),
    [
        ((GPU,), {}, ""),
        ((GPU,), tolerating("nvidia.com/gpu"), ""),
        # The cluster writes such into every pod, and more into those of DaemonSets.
        ((GPU,), tolerating("node.kubernetes.io/not-ready"), ""),
        ((GPU,), tolerating("nvidia.com/gpu", "dedicated"), '"dedicated" at spec.tolerations[1]'),
        ((GPU,), tolerating(""), '"*" at spec.tolerations[0]'),
        ((GPU,), {"nodeName": "n"}, '"*" at spec.nodeName'),
        ((GPU,), tolerating("nvidia.com/gpu/x"), '"nvidia.com/gpu/x" at spec.tolerations[0]'),
        ((NO_MASTERS,), tolerating("dedicated"), ""),
        ((NO_MASTERS,), tolerating(MASTER), f'"{MASTER}" at spec.tolerations[0]'),
        ((NO_MASTERS,), tolerating(""), '"*" at spec.tolerations[0]'),
        ((NO_MASTERS,), {"nodeName": "n"}, '"*" at spec.nodeName'),
        # The last that matches wins, and what is denied for all is denied.
        ((GPU, NO_MASTERS), tolerating(MASTER), f'"{MASTER}" at spec.tolerations[0]'),
        ((rule("allow", tolerations=[{"exp": ".*"}]),), tolerating("", "x"), ""),
        (
            (rule("allow", tolerations=[{"exact": ["x"], "negate": True}]),),
            tolerating("y", ""),
            '"*" at spec.tolerations[1]',
        ),
        ((rule("audit", tolerations=[{"exact": ["x"]}]),), tolerating("x"), ""),
        (
            (rule("deny", tolerations=[{"exp": "unschedulable$"}]),),
            tolerating("node.kubernetes.io/unschedulable"),
            '"node.kubernetes.io/unschedulable" at spec.tolerations[0]',
        ),
    ],
)
def test_tolerations(rules: tuple[Object, ...], spec: Object, wrong: str) -> None:
    said = refusal(spec, *rules)
    assert said.startswith(f"toleration {wrong} is ") if wrong else said == ""


def test_only_tolerations_that_a_change_brings() -> None:
    old = tolerating("a", nodeName="n")
    assert refusal(tolerating("a", nodeName="n"), GPU, old=old) == ""
    # A pod gets its node from the scheduler.
    assert refusal(tolerating("a", nodeName="n"), GPU, old=tolerating("a")) == ""
    assert refusal(tolerating("a", "b", nodeName="n"), GPU, old=old) == (
        'toleration "b" at spec.tolerations[1] is not allowed by namespace rule: value did not '
        "match any allowed rule. Allowed tolerations: exact: nvidia.com/gpu"
    )


def required(*terms: Object, **more: Any) -> Object:
    must = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": must}, **more}


def preferred(*terms: Object) -> Object:
    wishes = [{"weight": 1, "preference": term} for term in terms]
    return {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    }


def term(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


POOLS = rule("allow", nodeSelectors=[{"exact": ["pool=a", "pool=b"]}])
NO_EDGE = rule("deny", nodeSelectors=[{"exp": "^pool=edge"}])


@pytest.mark.parametrize(
    ("rules", "spec", "wrong"),
    [
        ((POOLS,), {"nodeSelector": {"pool": "a"}}, ""),
        ((POOLS,), {"nodeSelector": {"pool": "a", "disk": "ssd"}}, ""),
        ((POOLS,), required(term("pool", "In", "a", "b")), ""),
        ((POOLS,), required(term("pool", "In", "a"), term("pool", "In", "b")), ""),
        ((POOLS,), required(term("disk", "Exists"), nodeSelector={"pool": "b"}), ""),
        ((POOLS,), {}, "none"),
        ((POOLS,), {"nodeSelector": {"pool": "c"}}, "pool=c"),
        ((POOLS,), {"nodeSelector": {"disk": "ssd"}}, "disk=ssd"),
        # One way out is enough to be anywhere.
        ((POOLS,), required(term("pool", "In", "a", "c")), "pool=a; pool=c"),
        ((POOLS,), required(term("pool", "In", "a"), term("disk", "Exists")), "pool=a"),
        ((POOLS,), required(term("pool", "In", "a"), {}), "pool=a"),
        ((POOLS,), required(term("pool", "In")), "none"),
        ((POOLS,), required(term("pool", "NotIn", "c")), "none"),
        ((POOLS,), required(term("pool", "Exists")), "none"),
        # A wish binds nobody.
        ((POOLS,), preferred(term("pool", "In", "a")), "pool=a"),
        ((NO_EDGE,), {}, ""),
        ((NO_EDGE,), {"nodeSelector": {"pool": "a"}}, ""),
        ((NO_EDGE,), {"nodeSelector": {"pool": "edge-1"}}, "pool=edge-1"),
        ((NO_EDGE,), required(term("pool", "In", "a", "edge")), "pool=a; pool=edge"),
        ((NO_EDGE,), preferred(term("pool", "In", "edge")), "pool=edge"),
        ((POOLS, NO_EDGE), {"nodeSelector": {"pool": "edge"}}, "pool=edge"),
    ],
)
def test_node_selectors(rules: tuple[Object, ...], spec: Object, wrong: str) -> None:
    said = refusal(spec, *rules)
    expected = f'node selector "{wrong}" at spec.nodeSelector is '
    assert said.startswith(expected) if wrong else said == ""


def test_only_nodes_that_a_change_asks_for() -> None:
    anywhere: Object = {"nodeSelector": {"disk": "ssd"}}
    assert refusal({**anywhere, "priority": 1}, POOLS, old=anywhere) == ""
    # What waits at a gate may still be told where to go.
    assert refusal({"nodeSelector": {"disk": "ssd", "pool": "a"}}, POOLS, old=anywhere) == ""
    assert refusal({"nodeSelector": {"pool": "c"}}, POOLS, old={}) == (
        'node selector "pool=c" at spec.nodeSelector is not allowed by namespace rule: value did '
        "not match any allowed rule. Allowed node selectors: exact: pool=a, pool=b"
    )


def test_a_pod_that_asks_for_very_many_nodes_is_refused() -> None:
    many = [str(number) for number in range(20_000)]
    said = refusal(required(term("pool", "In", *many)), POOLS)
    assert said.startswith("the object holds more values than can be compared")
