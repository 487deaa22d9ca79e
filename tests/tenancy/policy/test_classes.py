"""Classes: what may be named, what is given to who names none, and the words (specs/capsule 5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy.admission import defaults, pods, references, storage
from tenantry.tenancy.policy import classes, surroundings, volumes

from . import policies

Object = dict[str, Any]

VIEWS = {
    name: classes.View(name=name, labels=labels, default=default, value=value)
    for name, labels, default, value in (
        ("gold", {"tier": "gold"}, False, 100),
        ("silver", {"tier": "silver"}, False, 50),
        ("usual", {}, True, 10),
        ("mixed-Case", {}, False, 1),
    )
}
GOLD_ONLY: Object = {"matchLabels": {"tier": "gold"}}


def around(volume: volumes.Volume | None = None) -> surroundings.Surroundings:
    return surroundings.Surroundings(find=lambda _, name: VIEWS.get(name), volume=lambda _: volume)


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "x"}, "spec": {"containers": [], **spec}}


def pvc(name: str | None = None, **spec: Any) -> Object:
    found: Object = {"metadata": {"name": "x", "uid": "c1"}, "spec": dict(spec)}
    if name is not None:
        found["spec"]["storageClassName"] = name
    return found


def judged(step: admission.Step[Any], review: admission.Review, **spec: Any) -> str:
    assert step.matches(review)
    known = policies.known(policies.policy(**spec), around=around())
    return policies.message(step.decide(review, known))


PODS = pods.VALIDATING
CLAIMS, DEVICES = storage.VALIDATING


def refusal(kind: str, name: str, allowed: Object) -> str:
    """Judge one name of a class of any kind."""
    if kind == "priorityClasses":
        return judged(
            PODS, policies.a_review("pods", pod(priorityClassName=name)), **{kind: allowed}
        )
    if kind == "runtimeClasses":
        return judged(
            PODS, policies.a_review("pods", pod(runtimeClassName=name)), **{kind: allowed}
        )
    if kind == "storageClasses":
        review = policies.a_review("persistentvolumeclaims", pvc(name))
        return judged(CLAIMS, review, **{kind: allowed})
    review = policies.a_review(
        "resourceclaims",
        {"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": name}}]}}},
        group="resource.k8s.io",
    )
    return judged(DEVICES, review, **{kind: allowed})


WORDS = {
    "priorityClasses": "Pod Priority Class {} is forbidden for the current Tenant: ",
    "runtimeClasses": "Pod Runtime Class {} is forbidden for the current Tenant: ",
    "storageClasses": "Storage Class {} is forbidden for the current Tenant: ",
    "deviceClasses": "Device Class {} is forbidden for the current Tenant: ",
}


@pytest.mark.parametrize("kind", sorted(WORDS))
@pytest.mark.parametrize(
    ("allowed", "fine", "refused"),
    [
        ({"allowed": ["gold"]}, ["gold"], ["silver", "usual", "Gold"]),
        # An allow list without a selector admits what it lists, nothing more.
        ({"allowed": ["mixed-Case", "a"]}, ["mixed-Case"], ["gold", "mixed-case"]),
        ({"allowedRegex": "^(gold|silver)$"}, ["gold", "silver"], ["usual"]),
        (GOLD_ONLY, ["gold"], ["silver", "usual"]),
        (
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]},
            ["silver", "usual"],
            ["gold"],
        ),
        ({"allowed": ["usual"], **GOLD_ONLY}, ["usual", "gold"], ["silver"]),
        ({}, ["gold", "usual"], []),
    ],
)
def test_what_may_be_named(kind: str, allowed: Object, fine: list[str], refused: list[str]) -> None:
    for name in fine:
        assert refusal(kind, name, allowed) == ""
    for name in refused:
        if kind == "deviceClasses" and name not in VIEWS:
            continue
        assert refusal(kind, name, allowed).startswith(WORDS[kind].format(name))


@pytest.mark.parametrize("kind", sorted(set(WORDS) - {"deviceClasses"}))
def test_the_default_may_be_named_and_alone_limits_nothing(kind: str) -> None:
    assert refusal(kind, "silver", {"default": "silver", "allowed": ["gold"]}) == ""
    assert refusal(kind, "usual", {"default": "silver", "allowed": ["gold"]}) != ""
    assert refusal(kind, "usual", {"default": "silver"}) == ""


def test_words_say_what_would_be_accepted() -> None:
    allowed = {"default": "d", "allowed": ["a", "b"], "allowedRegex": "^x", **GOLD_ONLY}
    assert refusal("storageClasses", "usual", allowed) == (
        "Storage Class usual is forbidden for the current Tenant: use the default d or use one "
        "from the following list (a, b) or use one matching the following regex (^x) or use one "
        "with labels matching the selector (tier=gold)"
    )


def test_a_class_that_does_not_exist_has_no_labels() -> None:
    absent = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    assert refusal("storageClasses", "ghost", absent) != ""
    assert refusal("storageClasses", "usual", absent) == ""
    found = refusal("deviceClasses", "ghost", {"allowed": ["ghost"]})
    assert 'no DeviceClass "ghost" exists' in found


@pytest.mark.parametrize("name", [None, ""])
def test_a_claim_must_name_a_class(name: str | None) -> None:
    review = policies.a_review("persistentvolumeclaims", pvc(name))
    found = judged(CLAIMS, review, storageClasses={"allowed": ["gold"]})
    assert found.startswith("A Storage Class must be specified for the current Tenant")
    assert judged(CLAIMS, review) == ""


def test_a_rule_that_cannot_be_read_refuses() -> None:
    found = refusal("storageClasses", "gold", {"allowedRegex": "("})
    assert found.startswith("spec.storageClasses of the Tenant cannot be evaluated")


# ---- devices ------------------------------------------------------------------------------------

BAD, FINE = {"deviceClassName": "silver"}, {"deviceClassName": "gold"}


@pytest.mark.parametrize(
    "requests",
    [
        [{"exactly": BAD}],
        [{"exactly": FINE}, {"exactly": BAD}],
        [{"firstAvailable": [FINE, BAD]}],
        [{"firstAvailable": [BAD]}],
        [BAD],  # v1beta1
    ],
)
@pytest.mark.parametrize("template", [False, True])
def test_every_request_of_a_claim_is_judged(requests: list[Object], template: bool) -> None:
    spec: Object = {"devices": {"requests": requests}}
    obj: Object = {"spec": {"spec": spec} if template else spec}
    plural = "resourceclaimtemplates" if template else "resourceclaims"
    review = policies.a_review(plural, obj, group="resource.k8s.io")
    found = judged(DEVICES, review, deviceClasses={"allowed": ["gold"]})
    assert found.startswith("Device Class silver is forbidden for the current Tenant: ")
    update = policies.a_review(plural, obj, {"spec": {}}, group="resource.k8s.io")
    assert judged(DEVICES, update, deviceClasses={"allowed": ["gold"]}) == found
    same = policies.a_review(plural, obj, obj, group="resource.k8s.io")
    assert judged(DEVICES, same, deviceClasses={"allowed": ["gold"]}) == ""


# ---- defaults -----------------------------------------------------------------------------------


def given(step: admission.Step[Any], obj: Object, **spec: Any) -> Object:
    resource = "pods" if step.name == "pods.defaults" else "persistentvolumeclaims"
    review = policies.a_review(resource, obj)
    assert step.matches(review)
    known = policies.known(policies.policy(**spec), around=around())
    decision = step.decide(review, known)
    assert not isinstance(decision, admission.Deny), decision
    if isinstance(decision, admission.Patch):
        obj = jsonpatch.apply(obj, decision.ops)
    found: Object = obj["spec"]
    return found


POD_DEFAULTS, CLAIM_DEFAULTS = defaults.MUTATING
PRIORITY: Object = {"priorityClasses": {"default": "gold"}}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "gold"),
        ({"priority": 0}, "gold"),
        # What the cluster filled in was nobody's choice.
        ({"priorityClassName": "usual", "priority": 10}, "gold"),
        ({"priorityClassName": "silver", "priority": 50}, "silver"),
    ],
)
def test_priority(spec: Object, name: str) -> None:
    found = given(POD_DEFAULTS, pod(**spec), **PRIORITY)
    assert found["priorityClassName"] == name
    assert found["priority"] == {"gold": 100, "silver": 50}[name]
    if name == "gold":
        assert found["preemptionPolicy"] == "PreemptLowerPriority"


def test_a_default_priority_class_that_is_gone() -> None:
    known = policies.known(policies.policy(priorityClasses={"default": "ghost"}), around=around())
    decision = POD_DEFAULTS.decide(policies.a_review("pods", pod()), known)
    assert isinstance(decision, admission.Deny)
    assert decision.code == 500
    assert decision.message.startswith("failed to assign tenant default Priority Class")


def test_runtime() -> None:
    default: Object = {"runtimeClasses": {"default": "gold"}}
    assert given(POD_DEFAULTS, pod(), **default)["runtimeClassName"] == "gold"
    chosen = given(POD_DEFAULTS, pod(runtimeClassName="silver"), **default)
    assert chosen["runtimeClassName"] == "silver"
    assert given(POD_DEFAULTS, pod()) == pod()["spec"]


@pytest.mark.parametrize(
    ("name", "becomes"), [(None, "gold"), ("usual", "gold"), ("silver", "silver"), ("", "")]
)
def test_storage(name: str | None, becomes: str) -> None:
    found = given(CLAIM_DEFAULTS, pvc(name), storageClasses={"default": "gold"})
    assert found["storageClassName"] == becomes


# ---- volumes ------------------------------------------------------------------------------------

MINE = {"key": "capsule.clastix.io/tenant", "operator": "In", "values": ["oil"]}
(CLAIM_VOLUME,) = storage.MUTATING


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        ({}, None),
        ({"volumeName": "v"}, {"matchExpressions": [MINE]}),
        ({"selector": {"matchLabels": {"a": "b"}}},
         {"matchLabels": {"a": "b"}, "matchExpressions": [MINE]}),
        ({"selector": {"matchLabels": {"capsule.clastix.io/tenant": "gas"}}},
         {"matchExpressions": [MINE]}),
        ({"selector": {"matchExpressions": [{**MINE, "values": ["gas"]}, {**MINE, "operator": "Exists",
                                                                         "values": []}]}},
         {"matchExpressions": [MINE]}),
    ],
)  # fmt: skip
def test_a_claim_sees_volumes_of_its_tenant_only(spec: Object, selector: Object | None) -> None:
    review = policies.a_review("persistentvolumeclaims", pvc(**spec))
    known = policies.known(policies.policy(), around=around(volumes.Volume(name="v", tenant="oil")))
    decision = CLAIM_VOLUME.decide(review, known)
    if selector is None:
        assert decision == admission.Allow()
        return
    assert isinstance(decision, admission.Patch)
    after = jsonpatch.apply(review.object, decision.ops)
    assert after["spec"]["selector"] == selector
    again = policies.a_review("persistentvolumeclaims", after)
    assert policies.message(CLAIMS.decide(again, known)) == ""
    # Unchanged by us, it is refused: somebody has mutated it after us.
    if "selector" in spec:
        assert "must contain exactly one requirement" in policies.message(
            CLAIMS.decide(review, known)
        )


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (None, "cannot create a PVC referring to a not yet existing PV"),
        (
            volumes.Volume(name="v"),
            "PersistentVolume v is missing the Tenant label (capsule.clastix.io/tenant), "
            "preventing a potential cross-tenant mount",
        ),
        (
            volumes.Volume(name="v", tenant="gas"),
            "Preventing a cross-tenant mount for PersistentVolume v",
        ),
        (volumes.Volume(name="v", tenant="oil"), ""),
    ],
)
def test_volumes_of_others(volume: volumes.Volume | None, message: str) -> None:
    wants = pvc(volumeName="v", selector={"matchExpressions": [MINE]})
    create = policies.a_review("persistentvolumeclaims", wants)
    unbound = policies.a_review("persistentvolumeclaims", wants, pvc())
    bound = policies.a_review("persistentvolumeclaims", wants, wants)
    known = policies.known(policies.policy(), around=around(volume))
    assert references.volume(create) == references.volume(unbound) == "v"
    assert policies.message(CLAIMS.decide(create, known)) == message
    assert policies.message(CLAIMS.decide(unbound, known)) == message
    assert references.volume(bound) == ""
    assert policies.message(CLAIMS.decide(bound, known)) == ""


def test_a_volume_made_for_this_very_claim_may_be_bound_before_it_is_labelled() -> None:
    wants = pvc(volumeName="v")
    unbound = policies.a_review("persistentvolumeclaims", wants, pvc())
    for uid, tenant, fine in (("c1", "", True), ("other", "", False), ("c1", "gas", False)):
        claim = volumes.Claim(namespace="n", name="x", uid=uid)
        made = volumes.Volume(name="v", tenant=tenant, claim=claim)
        known = policies.known(policies.policy(), around=around(made))
        assert (policies.message(CLAIMS.decide(unbound, known)) == "") == fine


def test_which_classes_have_to_be_at_hand() -> None:
    review = policies.a_review("pods", pod(priorityClassName="p", runtimeClassName="r"))
    listed = policies.policy(priorityClasses={"allowed": ["p"]}, runtimeClasses=GOLD_ONLY)
    assert references.wanted(review, listed) == {("runtime", "r")}
    defaulted = policies.policy(priorityClasses={"default": "d"})
    assert references.wanted(review, defaulted) == {("priority", "p"), ("priority", "d")}
    assert references.wanted(review, policies.policy()) == frozenset()
