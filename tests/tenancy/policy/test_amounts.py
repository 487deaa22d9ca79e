"""Requests and limits by rule: what is written, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy.admission import pods

from . import policies

Object = dict[str, Any]


def rule(action: str = "deny", targets: list[str] | None = None, **parts: Any) -> Object:
    workloads: Object = {"resources": parts}
    if targets is not None:
        workloads["targets"] = targets
    return {"enforce": {"action": action, "workloads": workloads}}


def pod(requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources: Object = {}
    if requests is not None:
        resources["requests"] = requests
    if limits is not None:
        resources["limits"] = limits
    container = {"name": "c", "resources": resources}
    return {"metadata": {"name": "x"}, "spec": {"containers": [container], **spec}}


def filled(obj: Object, *rules: Object) -> Object:
    before = copy.deepcopy(obj)
    known = policies.known(policies.policy(rules=list(rules)))
    decision = pods.MUTATING.decide(policies.a_review("pods", obj), known)
    assert obj == before
    after = jsonpatch.apply(obj, decision.ops) if isinstance(decision, admission.Patch) else obj
    spec: Object = after["spec"]
    return spec


def resources(obj: Object, *rules: Object) -> Object:
    found: Object = filled(obj, *rules)["containers"][0]["resources"]
    return {part: values for part, values in found.items() if values}


def refusal(obj: Object, *rules: Object, old: Object | None = None, sub: str = "") -> str:
    known = policies.known(policies.policy(rules=list(rules)))
    review = policies.a_review("pods", obj, old, subresource=sub)
    return policies.message(pods.VALIDATING.decide(review, known))


DEFAULT = rule(requests={"cpu": {"policy": "Default", "value": "100m"}})
RATIO = rule(limits={"memory": {"policy": "Ratio", "value": "1.5"}})
MATCH = rule(limits={"cpu": {"policy": "MatchRequest"}})
NO_LIMIT = rule(limits={"cpu": {"policy": "Remove"}})
NO_REQUEST = rule(requests={"cpu": {"policy": "Remove"}})


def test_a_pod_needs_what_its_containers_need() -> None:
    """As Kubernetes fills it in, so that a limit can be made from what they were given a moment ago."""
    init: list[Object] = [
        {"name": "a", "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "restartPolicy": "Always"},
        {"name": "c", "resources": {"requests": {"cpu": "250m"}}},
    ]
    obj = pod(resources={"limits": {"memory": "1Gi"}}, initContainers=init)
    assert filled(obj, DEFAULT, MATCH)["resources"] == {
        "requests": {"cpu": "3"},
        "limits": {"memory": "1Gi", "cpu": "3"},
    }
    init[0]["resources"]["requests"]["cpu"] = "10m"
    # The third runs beside the second; afterwards the second beside the others.
    assert filled(obj, DEFAULT, MATCH)["resources"]["requests"] == {"cpu": "350m"}
    init.pop()
    assert filled(obj, DEFAULT, MATCH)["resources"]["requests"] == {"cpu": "200m"}
    # What it says itself stands, and who says nothing of resources gets none.
    obj["spec"]["resources"]["requests"] = {"cpu": "5"}
    assert filled(obj, DEFAULT, MATCH)["resources"]["limits"] == {"memory": "1Gi", "cpu": "5"}
    assert "resources" not in filled(pod(), DEFAULT, MATCH)


@pytest.mark.parametrize(
    ("obj", "rules", "expected"),
    [
        (pod(), [DEFAULT], {"requests": {"cpu": "100m"}}),
        (pod({"cpu": "1"}), [DEFAULT], {"requests": {"cpu": "1"}}),
        # The last block is the one that counts.
        (pod(), [DEFAULT, rule(requests={"cpu": {"policy": "Default", "value": "2"}})],
         {"requests": {"cpu": "2"}}),
        (pod(), [DEFAULT, rule(requests={"cpu": {"policy": "Preserve"}})], {}),
        (pod({"memory": "1Gi"}), [RATIO], {"requests": {"memory": "1Gi"},
                                           "limits": {"memory": "1536Mi"}}),
        (pod({"memory": "3"}), [RATIO], {"requests": {"memory": "3"}, "limits": {"memory": "4"}}),
        (pod({"memory": "1Gi"}, {"memory": "5Gi"}), [RATIO],
         {"requests": {"memory": "1Gi"}, "limits": {"memory": "5Gi"}}),
        (pod(), [RATIO], {}),
        (pod({"cpu": "250m"}, {"cpu": "1"}), [MATCH],
         {"requests": {"cpu": "250m"}, "limits": {"cpu": "250m"}}),
        (pod({"cpu": "1"}, {"cpu": "2"}), [NO_LIMIT], {"requests": {"cpu": "1"}}),
        (pod({"cpu": "1"}), [NO_REQUEST], {}),
        # Limits are made from requests that are written here, too.
        (pod(), [DEFAULT, rule(limits={"cpu": {"policy": "Ratio", "value": 3}})],
         {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}}),
        (pod(), [rule("audit", requests={"cpu": {"policy": "Default", "value": "1"}})], {}),
    ],
)  # fmt: skip
def test_what_is_written(obj: Object, rules: list[Object], expected: Object) -> None:
    assert resources(obj, *rules) == expected


@pytest.mark.parametrize(
    ("obj", "rules", "message"),
    [
        (pod({"memory": "1Gi"}, {"memory": "2Gi"}), [RATIO],
         'spec.containers[0].resources.limits["memory"] is denied by namespace rule: violates '
         "policy Ratio: limit 2Gi must not exceed 1536Mi (request 1Gi times 1500m)"),
        (pod({"memory": "1Gi"}, {"memory": "1536Mi"}), [RATIO], ""),
        (pod({"memory": "0"}, {"memory": "1"}), [RATIO],
         "violates policy Ratio: Ratio requires a request greater than zero"),
        (pod(None, {"memory": "1"}), [RATIO],
         "violates policy Ratio: Ratio requires a request greater than zero"),
        (pod({"memory": "1Gi"}), [RATIO],
         "violates policy Ratio: limit is undefined while request is 1Gi"),
        (pod(), [RATIO], ""),
        (pod({"cpu": "1"}, {"cpu": "2"}), [MATCH],
         "violates policy MatchRequest: limit 2 must equal request 1"),
        (pod({"cpu": "1000m"}, {"cpu": "1"}), [MATCH], ""),
        (pod({"cpu": "1"}), [MATCH], "limit is undefined while request is 1"),
        (pod({"cpu": "1"}, {"cpu": "1"}), [NO_LIMIT],
         "violates policy Remove: limit must be undefined for policy Remove"),
        (pod({"cpu": "1"}), [NO_REQUEST],
         "violates policy Remove: request must be undefined for policy Remove"),
        # A later block can lift what an earlier one asks.
        (pod({"cpu": "1"}), [NO_REQUEST, rule(requests={"cpu": {"policy": "Preserve"}})], ""),
        (pod({"cpu": "1"}), [NO_REQUEST, DEFAULT], ""),
        (pod({"cpu": "1"}), [DEFAULT, NO_REQUEST], "request must be undefined"),
    ],
)  # fmt: skip
def test_what_is_refused(obj: Object, rules: list[Object], message: str) -> None:
    found = refusal(obj, *rules)
    assert found.endswith(message) if not message.startswith("request must") else message in found
    assert bool(found) == bool(message)


def test_one_of_several_must_be_met() -> None:
    both = [
        rule("allow", limits={"cpu": {"policy": "Ratio", "value": 2}}),
        rule("allow", limits={"cpu": {"policy": "Remove"}}),
    ]
    assert refusal(pod({"cpu": "1"}), *both) == ""
    assert refusal(pod({"cpu": "1"}, {"cpu": "2"}), *both) == ""
    assert refusal(pod({"cpu": "1"}, {"cpu": "3"}), *both) == (
        'spec.containers[0].resources.limits["cpu"] is not allowed by namespace rule: does not '
        "satisfy any allowed resource policy: Ratio: limit 3 must not exceed 2 (request 1 times "
        "2); Remove: limit must be undefined for policy Remove"
    )


def test_targets() -> None:
    init = pod(initContainers=[{"name": "i"}])
    only_init = rule(
        targets=["pod/initcontainers"], requests={"cpu": {"policy": "Default", "value": 1}}
    )
    found = filled(init, only_init)
    assert found["initContainers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert found["containers"][0]["resources"] == {}
    # The pod itself is left alone unless it has resources, or is named.
    assert "resources" not in filled(pod(), DEFAULT)
    assert filled(pod(resources={"limits": {"cpu": "1"}}), DEFAULT)["resources"]["requests"] == {
        "cpu": "100m"
    }
    named = rule(targets=["pod"], requests={"cpu": {"policy": "Default", "value": 1},
                                            "nvidia.com/gpu": {"policy": "Default", "value": 1}})  # fmt: skip
    found = filled(pod(), named)
    assert found["resources"] == {"requests": {"cpu": "1"}}
    assert found["containers"][0]["resources"] == {}
    whole = rule(targets=["pod"], limits={"cpu": {"policy": "Remove"}})
    assert refusal(pod(resources={"limits": {"cpu": 1}}), whole).startswith(
        'spec.resources.limits["cpu"] is denied'
    )


def test_a_resize_is_a_change_like_any_other() -> None:
    before = pod({"memory": "1Gi"}, {"memory": "2Gi"})
    assert refusal(before, RATIO, old=before, sub="resize") == ""
    after = pod({"memory": "1Gi"}, {"memory": "3Gi"})
    assert "limit 3Gi must not exceed" in refusal(after, RATIO, old=before, sub="resize")


def test_audits_note() -> None:
    audit = rule("audit", limits={"cpu": {"policy": "Remove"}})
    known = policies.known(policies.policy(rules=[audit]))
    review = policies.a_review("pods", pod(None, {"cpu": "1"}))
    decision = pods.VALIDATING.decide(review, known)
    assert isinstance(decision, admission.Allow)
    (note,) = decision.notes
    assert getattr(note, "message", "").startswith(
        'spec.containers[0].resources.limits["cpu"] matched audit namespace rule'
    )
