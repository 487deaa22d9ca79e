"""Pods against policy: every way to bring an image in, and the words of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import admission
from tenantry.tenancy.admission import pods

from . import policies

Object = dict[str, Any]
SHA = "sha256:" + "cd" * 32


def pod(image: str = "r.io/app:1", policy: str = "Always", **spec: Any) -> Object:
    container = {"name": "main", "image": image, "imagePullPolicy": policy}
    return {"metadata": {"name": "x"}, "spec": {"containers": [container], **spec}}


def refusal(obj: Object, old: Object | None = None, *, sub: str = "", **spec: Any) -> str:
    review = policies.a_review("pods", obj, old, subresource=sub)
    assert pods.VALIDATING.matches(review)
    return policies.message(pods.validate(review, policies.known(policies.policy(**spec))))


def images(action: str, *entries: Object, **more: Any) -> Object:
    return {"enforce": {"action": action, "workloads": {"registries": list(entries), **more}}}


# ---- the deprecated fields ----------------------------------------------------------------------

LEGACY: Object = {"containerRegistries": {"allowed": ["r.io"], "allowedRegex": r"^x[.]io$"}}
LEGACY_WORDS = (
    "registry is forbidden for the current Tenant: use one from the following list (r.io) or "
    " use one matching the following regex (^x[.]io$)"
)


@pytest.mark.parametrize("image", ["r.io/app", "R.IO/app:1", f"r.io/a/b@{SHA}", "x.io/y"])
def test_registries_that_are_listed(image: str) -> None:
    assert refusal(pod(image), **LEGACY) == ""


@pytest.mark.parametrize(
    "image",
    ["e.io/app", "r.io:5000/app", "e.io/r.io/app", f"e.io/app@{SHA}", "r.io.evil/app", "docker.io/x"],
)  # fmt: skip
def test_registries_that_are_not(image: str) -> None:
    assert refusal(pod(image), **LEGACY) == f"Container image {image} {LEGACY_WORDS}"


@pytest.mark.parametrize("image", ["nginx", "team/app", f"app@{SHA}", "NGINX", "r.io:5000"])
def test_short_names_say_nothing_of_their_registry(image: str) -> None:
    assert refusal(pod(image), **LEGACY).startswith(
        f"Container image {image} is not fully qualified"
    )


def test_pull_policies() -> None:
    allowed: Object = {"imagePullPolicies": ["Always", "IfNotPresent"]}
    assert refusal(pod(policy="Always"), **allowed) == ""
    assert refusal(pod(policy="Never"), **allowed) == (
        "ImagePullPolicy Never for container main is forbidden, use one of the followings: "
        "Always, IfNotPresent"
    )


EVIL: Object = {"name": "evil", "image": "e.io/x", "imagePullPolicy": "Always"}


def with_evil(field: str) -> Object:
    found = pod()
    found["spec"][field] = [*(found["spec"].get(field) or ()), EVIL]
    return found


@pytest.mark.parametrize("field", ["initContainers", "containers", "ephemeralContainers"])
def test_every_kind_of_container_at_create_and_update(field: str) -> None:
    assert "e.io/x registry is forbidden" in refusal(with_evil(field), **LEGACY)
    for subresource in ("", "ephemeralcontainers", "resize"):
        assert "e.io/x registry" in refusal(with_evil(field), pod(), sub=subresource, **LEGACY)


def test_image_volumes() -> None:
    volume = {"name": "data", "image": {"reference": "e.io/x", "pullPolicy": "Never"}}
    with_volume = pod(volumes=[{"name": "tmp", "emptyDir": {}}, volume])
    assert "e.io/x registry is forbidden" in refusal(with_volume, **LEGACY)
    assert refusal(with_volume, imagePullPolicies=["Always"]).startswith(
        "ImagePullPolicy Never for container data is forbidden"
    )
    rule = images("deny", {"exp": "^e.io/"})
    assert 'registry "e.io/x" at volumes[1](data) is denied' in refusal(with_volume, rules=[rule])


def test_what_runs_goes_on_and_only_changes_are_judged() -> None:
    before = pod("e.io/old")
    assert refusal({**before, "metadata": {"labels": {"a": "b"}}}, before, **LEGACY) == ""
    assert "e.io/new" in refusal(pod("e.io/new"), before, **LEGACY)
    # Another container's image is no excuse.
    after = pod("e.io/old")
    after["spec"]["initContainers"] = [{**EVIL, "image": "e.io/old"}]
    assert "e.io/old" in refusal(after, before, **LEGACY)


# ---- rules --------------------------------------------------------------------------------------


def test_words_of_rules() -> None:
    allow = images(
        "allow", {"exact": ["r.io/a:1"], "exp": "^h/"}, {"exp": "^x.io/", "negate": True}
    )
    assert refusal(pod("x.io/b"), rules=[allow]) == (
        'registry "x.io/b" at containers[0] is not allowed by namespace rule: value did not match '
        "any allowed rule. Allowed registries: exact: r.io/a:1; exp: ^h/; not exp: ^x.io/"
    )
    deny = images("deny", {"exp": "^e.io/"})
    assert refusal(pod("e.io/b"), rules=[deny]) == (
        'registry "e.io/b" at containers[0] is denied by namespace rule: '
        "matched denied rule exp: ^e.io/"
    )


@pytest.mark.parametrize(
    "image",
    ["docker.io/library/nginx:1", "nginx:1", "index.docker.io/nginx:1", "DOCKER.IO/nginx:1",
     "docker.io/nginx:1", f"nginx:1@{SHA}"],
)  # fmt: skip
def test_one_image_under_many_names_is_denied_under_all(image: str) -> None:
    exact = images("deny", {"exact": ["docker.io/library/nginx:1"]})
    assert "is denied by namespace rule" in refusal(pod(image), rules=[exact])
    others = images("allow", {"exp": "^docker.io/", "negate": True})
    assert "is not allowed by namespace rule" in refusal(pod(image), rules=[others])


def test_latest_is_meant_where_nothing_is_written() -> None:
    rule = images("deny", {"exp": ":latest$"})
    assert "is denied" in refusal(pod("r.io/app"), rules=[rule])
    assert refusal(pod("r.io/app:1"), rules=[rule]) == ""


def test_a_pin_is_another_image_than_its_tag() -> None:
    allow = images("allow", {"exact": ["r.io/app:1"]})
    assert refusal(pod("r.io/app:1"), rules=[allow]) == ""
    assert "is not allowed" in refusal(pod(f"r.io/app:1@{SHA}"), rules=[allow])
    only = images("deny", {"exact": ["r.io/app:1"], "negate": True})
    assert "is denied" in refusal(pod(f"r.io/app:1@{SHA}"), rules=[only])


@pytest.mark.parametrize("image", ["r.io/APP", "r.io/app:", "http://r.io/app", "r.io/app@x"])
def test_what_is_no_image_is_no_listed_image(image: str) -> None:
    allow = images("allow", {"exp": ".*"})
    assert "is not allowed" in refusal(pod(image), rules=[allow])
    deny = images("deny", {"exp": "^e.io/"})
    assert "is denied" in refusal(pod(image), rules=[deny])


def test_targets() -> None:
    init = images("allow", {"exp": "^r.io/"}, targets=["pod/initcontainers"])
    assert refusal(pod("e.io/x"), rules=[init]) == ""
    found = refusal(pod(initContainers=[EVIL]), rules=[init])
    assert found.startswith('registry "e.io/x" at initContainers[0] is not allowed')
    volumes = images("deny", {"exp": "."}, targets=["pod/volumes"])
    assert refusal(pod(initContainers=[EVIL]), rules=[volumes]) == ""


def test_pull_policies_of_registries() -> None:
    rule = images("allow", {"exp": "^r.io/", "policy": ["Always", "Never"]}, {"exp": "^x.io/"})
    assert refusal(pod(policy="Never"), rules=[rule]) == ""
    assert refusal(pod(policy="IfNotPresent"), rules=[rule]) == (
        'registry "r.io/app:1" at containers[0] uses pullPolicy=IfNotPresent which is not allowed '
        "(allowed: Always, Never)"
    )
    assert "must explicitly set pullPolicy" in refusal(pod(policy=""), rules=[rule])
    assert refusal(pod("x.io/app", policy="IfNotPresent"), rules=[rule]) == ""
    # What is denied is denied with these policies only.
    never = images("deny", {"exp": ".", "policy": ["Never"]})
    assert "is denied" in refusal(pod(policy="Never"), rules=[never])
    assert refusal(pod(policy="Always"), rules=[never]) == ""


def test_fields_and_rules_must_both_agree() -> None:
    rule = images("allow", {"exp": "."})
    assert "registry is forbidden" in refusal(pod("e.io/x"), rules=[rule], **LEGACY)
    assert "is denied" in refusal(pod(), rules=[images("deny", {"exp": "."})], **LEGACY)


def test_rules_by_namespace() -> None:
    rule = {**images("deny", {"exp": "."}), "namespaceSelector": {"matchLabels": {"env": "prod"}}}
    review = policies.a_review("pods", pod())
    for labels, refused in (({"env": "prod"}, True), ({"env": "dev"}, False), ({}, False)):
        found = policies.policy(labels, rules=[rule])
        denied = isinstance(pods.validate(review, policies.known(found)), admission.Deny)
        assert denied == refused


@pytest.mark.parametrize("exp", ["(", "a" * 5000])
def test_an_expression_that_was_stored_before_it_was_checked_refuses(exp: str) -> None:
    for action in ("allow", "deny", "audit"):
        found = refusal(pod(), rules=[images(action, {"exp": exp})])
        assert found.startswith("spec.rules[0] of the Tenant cannot be evaluated")


def test_schedulers() -> None:
    deny = {"enforce": {"workloads": {"schedulers": [{"exact": ["mine"]}]}}}
    assert refusal(pod(schedulerName="mine"), rules=[deny]) == (
        'scheduler "mine" at spec.schedulerName is denied by namespace rule: '
        "matched denied rule exact: mine"
    )
    allow = {"enforce": {"action": "allow", "workloads": {"schedulers": [{"exp": "^kai-"}]}}}
    assert refusal(pod(), rules=[allow]) == ""
    assert "Allowed schedulers: exp: ^kai-" in refusal(pod(schedulerName="default"), rules=[allow])


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": BOTH}, "Guaranteed"),
        ({"limits": BOTH, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": BOTH, "requests": {"cpu": "0", "memory": "1Gi"}}, "Burstable"),
        ({"limits": BOTH, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Object, qos: str) -> None:
    found = pod()
    found["spec"]["containers"][0]["resources"] = resources
    deny = {"enforce": {"workloads": {"qosClasses": [qos]}}}
    assert refusal(found, rules=[deny]) == (
        f'QoS class "{qos}" at status.qosClass is denied by namespace rule: '
        f"matched denied rule {qos}"
    )


def test_quality_of_service_counts_all_of_a_pod() -> None:
    mixed = pod(initContainers=[{"name": "i", "image": "r.io/i"}])
    mixed["spec"]["containers"][0]["resources"] = {"limits": BOTH}
    allow = {"enforce": {"action": "allow", "workloads": {"qosClasses": ["Guaranteed"]}}}
    assert 'QoS class "Burstable"' in refusal(mixed, rules=[allow])
    # Resources of the pod itself count alone.
    mixed["spec"]["resources"] = {"limits": BOTH}
    assert refusal(mixed, rules=[allow]) == ""


def test_without_a_policy_nothing_is_judged() -> None:
    review = policies.a_review("pods", pod("NGINX"))
    assert pods.validate(review, policies.known(None)) == admission.Allow()
    for other in ("status", "binding", "eviction"):
        assert not pods.VALIDATING.matches(
            policies.a_review("pods", pod(), pod(), subresource=other)
        )
