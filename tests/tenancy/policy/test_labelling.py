"""Labels and annotations by rule: what must, may and may not be there, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.directory import identity
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy.admission import labelling
from tenantry.tenancy.policy import compiling

from . import policies

Object = dict[str, Any]


def rule(action: str = "allow", *, kinds: tuple[str, ...] = ("ConfigMap",), **more: Any) -> Object:
    return {"enforce": {"action": action, "metadata": [{"kinds": list(kinds), **more}]}}


def obj(annotations: Object | None = None, **labels: str) -> Object:
    return {"metadata": {"name": "x", "labels": labels, "annotations": annotations or {}}}


def review(found: Object, old: Object | None = None, **more: Any) -> admission.Review:
    given = {"kind": "ConfigMap", **more}
    return policies.a_review(f"{given['kind'].lower()}s", found, old, **given)


def refusal(
    found: Object, *rules: Object, old: Object | None = None, groups: tuple[str, ...] = (),
    klass: identity.Class = identity.Class.CAPSULE, **more: Any,
) -> str:  # fmt: skip
    known = policies.known(policies.policy(rules=list(rules)), groups=groups, klass=klass)
    (step,) = labelling.VALIDATING
    asked = review(found, old, **more)
    assert step.matches(asked)
    return policies.message(step.decide(asked, known))


def becomes(found: Object, *rules: Object, old: Object | None = None, **more: Any) -> Object:
    groups = more.pop("groups", ())
    spec = {key: more.pop(key) for key in ("podOptions", "serviceOptions") if key in more}
    known = policies.known(policies.policy(rules=list(rules), **spec), groups=groups)
    (step,) = labelling.MUTATING
    decision = step.decide(review(found, old, **more), known)
    after = jsonpatch.apply(found, decision.ops) if isinstance(decision, admission.Patch) else found
    metadata: Object = after["metadata"]
    return metadata


TEAM: Object = {"labels": {"team": {"values": [{"exact": ["a", "b"]}]}}}


def test_values() -> None:
    assert refusal(obj(team="a"), rule(**TEAM)) == ""
    assert refusal(obj(other="x"), rule(**TEAM)) == ""
    assert refusal(obj(team="c"), rule(**TEAM)) == (
        'metadata label "c" at metadata.labels["team"] is not allowed by namespace rule: value did '
        "not match any allowed rule. Allowed metadata values: exact: a, b"
    )
    assert refusal(obj(team="a"), rule("deny", **TEAM)) == (
        'metadata label "a" at metadata.labels["team"] is denied by namespace rule: '
        "matched denied rule exact: a, b"
    )
    annotated = rule(annotations={"team": {"values": [{"exp": "^a"}]}})
    assert 'metadata annotation "c" at metadata.annotations["team"]' in refusal(
        obj({"team": "c"}), annotated
    )
    # One list for a key, whichever blocks it stands in; the last match wins.
    more = rule(labels={"team": {"values": [{"exact": ["c"]}]}})
    assert refusal(obj(team="c"), rule(**TEAM), more) == ""
    assert refusal(obj(team="c"), more, rule("deny", labels={"team": {}})) != ""


def test_only_changes_are_judged() -> None:
    assert refusal(obj(team="c", a="b"), rule(**TEAM), old=obj(team="c")) == ""
    assert refusal(obj(team="d"), rule(**TEAM), old=obj(team="c")) != ""


def test_what_is_needed() -> None:
    needed = rule(labels={"team": {"required": True}})
    words = 'metadata label "team" is required at metadata.labels["team"]'
    assert refusal(obj(), needed) == words
    assert refusal(obj(team="anything"), needed) == ""
    assert refusal(obj(), needed, old=obj(team="a")) == words
    # It was made before it was needed.
    assert refusal(obj(a="b"), needed, old=obj()) == ""
    assert refusal(obj(), rule("deny", labels={"team": {"required": True}})) == ""


@pytest.mark.parametrize(
    ("selector", "key", "meant"),
    [
        ("example.com/*", "example.com/a", True),
        ("example.com/*", "example.org/a", False),
        ("*", "anything", True),
        ("example.com/[ab]", "example.com/a", True),
        ("example.com/[ab]", "example.com/ab", False),  # anchored
        ("^team$", "team", True),
        ("team", "teams", False),
        ("x.y", "x-y", False),  # a key stands for itself
        ("te(am|st)", "test", True),
        ("te.*", "team", True),
    ],
)
def test_keys(selector: str, key: str, meant: bool) -> None:
    found = refusal(obj({}, **{key: "x"}), rule("deny", labels={selector: {}}))
    assert bool(found) == meant


@pytest.mark.parametrize(
    ("more", "kind", "group", "meant"),
    [
        ({}, "ConfigMap", "", True),
        ({}, "Deployment", "apps", False),
        ({"kinds": ("Deployment",)}, "Deployment", "apps", False),
        ({"kinds": ("Deployment",), "apiGroups": ["apps/v1"]}, "Deployment", "apps", True),
        ({"kinds": ("Deployment",), "apiGroups": ["*"]}, "Deployment", "apps", True),
        ({"kinds": ("*",), "apiGroups": ["v1"]}, "Secret", "", True),
        ({"kinds": ("*Map",)}, "ConfigMap", "", True),
        ({"kinds": ("Config",)}, "ConfigMap", "", False),
        ({"kinds": ("*",), "apiGroups": ["*"]}, "Namespace", "", False),
        # The same object under another version.
        ({"kinds": ("Foo",), "apiGroups": ["example.com/v1"]}, "Foo", "example.com", True),
    ],
)
def test_kinds(more: Any, kind: str, group: str, meant: bool) -> None:
    denied = rule("deny", labels={"team": {}}, **more)
    asked = policies.a_review("things", obj(team="a"), kind=kind, group=group)
    known = policies.known(policies.policy(rules=[denied]))
    (step,) = labelling.VALIDATING
    assert bool(policies.message(step.decide(asked, known))) == meant


def test_what_is_exempt() -> None:
    denied = rule("deny", labels={".*": {}})
    managed = {"projectcapsule.dev/managed-by": "controller"}
    assert refusal(obj({}, team="a", **managed), denied) == ""
    # Anybody can write this mark, so it excuses administrators only; so can any case of it.
    legacy = {"projectcapsule.dev/managed-by": "resources"}
    assert refusal(obj({}, team="a", **legacy), denied) != ""
    assert refusal(obj({}, team="a", **legacy), denied, klass=identity.Class.ADMIN) == ""
    assert (
        refusal(obj({}, team="a", **{"projectcapsule.dev/managed-by": "Controller"}), denied) != ""
    )
    # Keys of the platform's own are not the rules' business.
    assert refusal(obj({}, **{"capsule.clastix.io/managed-by": "oil"}), denied) == ""
    # What the cluster puts into every namespace, but not what it makes for somebody.
    system = ("system:serviceaccounts:kube-system",)
    needed = rule(labels={"team": {"required": True}})
    assert refusal(obj(), needed, groups=system) == ""
    owned = obj()
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]
    assert refusal(owned, needed, groups=system) != ""


def test_what_the_cluster_puts_everywhere_gets_what_is_kept_and_is_not_judged() -> None:
    system = ("system:serviceaccounts:kube-system",)
    kept = rule(labels={"team": {"managed": "a"}, "x": {"default": "b"}})
    needed = rule(labels={"other": {"required": True}})
    assert becomes(obj(), kept, needed, groups=system)["labels"] == {"team": "a"}
    assert refusal(obj(), needed, groups=system) == ""
    mine = {"projectcapsule.dev/managed-by": "controller"}
    assert becomes(obj({}, **mine), kept)["labels"] == mine


def test_what_is_written() -> None:
    default = rule(labels={"team": {"default": "a"}})
    assert becomes(obj(), default)["labels"] == {"team": "a"}
    assert becomes(obj(team="b"), default)["labels"] == {"team": "b"}
    managed = rule(labels={"team": {"managed": "a"}}, annotations={"x": {"managed": "y"}})
    found = becomes(obj(team="b"), managed)
    assert (found["labels"], found["annotations"]) == ({"team": "a"}, {"x": "y"})
    # It is not for the taking, either.
    assert becomes(obj(), managed, old=obj(team="a"))["labels"] == {"team": "a"}
    # Written values alone limit nothing.
    assert refusal(obj(team="b"), default, managed) == ""


def test_templates_know_tenant_and_namespace() -> None:
    managed = rule(
        labels={
            "t": {"managed": "{{ .tenant.metadata.name }}-{{ .namespace.metadata.name }}"},
            "tier": {"managed": '{{ index .tenant.metadata.labels "tier" | upper }}'},
        }
    )
    found = policies.a_namespace()
    assert found.raw == b"{}"
    view = type(found)(**{
        **{name: getattr(found, name) for name in found.__struct_fields__},
        "raw": b'{"metadata": {"name": "oil-prod"}}',
    })  # fmt: skip
    policy = compiling.Book().of(policies.a_tenant(rules=[managed]), view)
    (step,) = labelling.MUTATING
    decision = step.decide(review(obj()), policies.known(policy))
    assert isinstance(decision, admission.Patch)
    after = jsonpatch.apply(obj(), decision.ops)
    assert after["metadata"]["labels"] == {"t": "oil-oil-prod", "tier": "GOLD"}


@pytest.mark.parametrize("text", ["{{ .tenant.spec.data.nothing }}", "{{ .nobody }}"])
def test_a_key_that_is_missing_refuses(text: str) -> None:
    missing = rule("deny", labels={"team": {"values": [{"exact": [text]}]}})
    assert refusal(obj(team="a"), missing).startswith("spec.rules[0] of the Tenant cannot be")
    assert refusal(obj(other="a"), missing) == ""


def test_the_deprecated_fields() -> None:
    extra = {"additionalMetadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}}
    for kind, group, options in (
        ("Pod", "", {"podOptions": extra}),
        ("Service", "", {"serviceOptions": extra}),
        ("EndpointSlice", "discovery.k8s.io", {"serviceOptions": extra}),
    ):
        found = becomes(obj(own="x"), kind=kind, group=group, **options)
        assert found["labels"] == {"own": "x", "l": "1"}
        assert found["annotations"] == {"a": "2"}
    assert becomes(obj(own="x"), podOptions=extra, serviceOptions=extra)["labels"] == {"own": "x"}
