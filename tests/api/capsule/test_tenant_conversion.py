"""Tenants between v1beta1 and v1beta2: nothing is lost, and nothing comes in by the side."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api.capsule import constants, tenant_conversion, tenant_v1beta1
from tenantry.core import errors, yamls

Object = dict[str, Any]
OLD, NEW = tenant_conversion.OLD, tenant_conversion.NEW
KEPT = constants.KEPT_ANNOTATION
FIXTURES = Path(__file__).parents[2] / "fixtures" / "capsule"


def new(spec: Object | None = None, annotations: dict[str, str] | None = None) -> Object:
    metadata: Object = {"name": "oil", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": NEW, "kind": "Tenant", "metadata": metadata, "spec": spec or {}}


def old(spec: Object | None = None, annotations: dict[str, str] | None = None) -> Object:
    return {**new(spec, annotations), "apiVersion": OLD}


def down(obj: Object) -> Object:
    return tenant_conversion.convert(copy.deepcopy(obj), OLD)


def up(obj: Object) -> Object:
    return tenant_conversion.convert(copy.deepcopy(obj), NEW)


def noted(obj: Object) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


@pytest.mark.parametrize("file", ["tenant-0.11", "tenant-0.14", "tenant-minimal"])
def test_fixtures_come_back_as_they_went(file: str) -> None:
    for given_ in yamls.read((FIXTURES / f"{file}.yaml").read_text()):
        there = down(given_)
        msgspec.convert(there, tenant_v1beta1.Tenant)
        assert up(there) == given_


NAMES = st.sampled_from(["a", "b", "a,b", "", " x "])
TEXTS = st.sampled_from(["true", "false", "enabled", "", "a,b", "^x", "1"])
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "cordoned": st.booleans(),
        "preventDeletion": st.booleans(),
        "data": st.dictionaries(NAMES, st.integers() | st.none() | st.lists(NAMES), max_size=2),
        "ingressOptions": st.fixed_dictionaries(
            {},
            optional={
                "allowWildcardHostnames": st.booleans(),
                "hostnameCollisionScope": st.sampled_from(["Cluster", "Disabled"]),
                "allowedClasses": st.fixed_dictionaries(
                    {}, optional={"default": NAMES, "allowed": st.lists(NAMES, max_size=2)}
                ),
            },
        ),
        "namespaceOptions": st.fixed_dictionaries(
            {},
            optional={
                "quota": st.integers(1, 5),
                "forbiddenLabels": st.fixed_dictionaries(
                    {}, optional={"denied": st.lists(NAMES, max_size=2), "deniedRegex": NAMES}
                ),
            },
        ),
        "owners": st.lists(
            st.fixed_dictionaries(
                {"kind": st.just("User"), "name": st.sampled_from(["x", "y"])},
                optional={
                    "clusterRoles": st.lists(st.sampled_from(["admin", "view"]), max_size=2),
                    "proxySettings": st.lists(
                        st.sampled_from(
                            [
                                {"kind": "Nodes", "operations": ["List"]},
                                {"kind": "RuntimeClasses", "operations": ["List"]},
                            ]
                        ),
                        max_size=3,
                    ),
                },
            ),
            max_size=3,
        ),
    },
)
SAID = st.dictionaries(
    st.sampled_from(
        [*tenant_conversion.SAID, "clusterrolenames.capsule.clastix.io/0", "mine", "x/user.x"]
    ),
    TEXTS,
    max_size=4,
)


@given(SPECS, SAID)
def test_nothing_is_lost_on_the_way_there_and_back(spec: Object, said: dict[str, str]) -> None:
    whole = new(spec, said)
    there = down(whole)
    assert up(there) == whole
    assert down(up(there)) == there


@pytest.mark.parametrize(
    ("annotation", "value", "spec"),
    [
        ("capsule.clastix.io/cordon", "true", {"cordoned": True}),
        ("capsule.clastix.io/cordon", "false", {}),
        ("capsule.clastix.io/protected", "", {"preventDeletion": True}),
        (
            "capsule.clastix.io/forbidden-namespace-labels",
            "a.io/x, b",
            {"namespaceOptions": {"forbiddenLabels": {"denied": ["a.io/x", "b"]}}},
        ),
        (
            "capsule.clastix.io/forbidden-namespace-labels-regexp",
            "^a",
            {"namespaceOptions": {"forbiddenLabels": {"deniedRegex": "^a"}}},
        ),
        (
            "capsule.clastix.io/forbidden-namespace-annotations",
            "b",
            {"namespaceOptions": {"forbiddenAnnotations": {"denied": ["b"]}}},
        ),
        (
            "capsule.clastix.io/forbidden-namespace-annotations-regexp",
            "^b",
            {"namespaceOptions": {"forbiddenAnnotations": {"deniedRegex": "^b"}}},
        ),
    ],
)
def test_what_v1beta1_says_in_annotations(annotation: str, value: str, spec: Object) -> None:
    wild = {"ingressOptions": {"allowWildcardHostnames": True}}
    assert up(old({}, {annotation: value}))["spec"] == {**wild, **spec}


def test_wildcards_are_allowed_in_v1beta1_unless_denied() -> None:
    key = "capsule.clastix.io/deny-wildcard"
    assert up(old({}))["spec"]["ingressOptions"] == {"allowWildcardHostnames": True}
    assert "ingressOptions" not in up(old({}, {key: "true"}))["spec"]
    assert noted(down(new({})))[key] == "true"
    assert noted(down(new({"ingressOptions": {"allowWildcardHostnames": True}}))) == {}


@pytest.mark.parametrize("which", ["1", "group.devs", "group.Devs"])
def test_roles_of_owners(which: str) -> None:
    owners = [{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "Devs"}]
    key = f"clusterrolenames.capsule.clastix.io/{which}"
    found = up(old({"owners": owners}, {key: "view,edit"}))
    assert found["spec"]["owners"] == [owners[0], {**owners[1], "clusterRoles": ["view", "edit"]}]
    assert noted(down(found))[key] == "view,edit"


def test_roles_taken_away_in_v1beta2_do_not_come_back_by_an_old_annotation() -> None:
    key = "clusterrolenames.capsule.clastix.io/0"
    stored = up(old({"owners": [{"kind": "User", "name": "a"}]}, {key: "admin"}))
    stored["spec"]["owners"][0]["clusterRoles"] = ["view"]
    there = down(stored)
    there["spec"]["nodeSelector"] = {"a": "b"}
    assert up(there)["spec"]["owners"][0]["clusterRoles"] == ["view"]


def test_an_owner_does_not_inherit_what_was_kept_of_another() -> None:
    spec = {"owners": [{"kind": "User", "name": "a", "clusterRoles": ["cluster-admin"]}]}
    there = down(new(spec))
    there["spec"]["owners"] = [{"kind": "User", "name": "b"}]
    assert up(there)["spec"]["owners"] == [{"kind": "User", "name": "b"}]


def test_a_change_in_v1beta1_leaves_the_fields_of_v1beta2() -> None:
    spec = {
        "owners": [{"kind": "User", "name": "a", "clusterRoles": ["view"], "labels": {"x": "y"}}],
        "rules": [{"enforce": {"workloads": {"schedulers": [{"exact": ["x"]}]}}}],
        "storageClasses": {"allowed": ["a"], "default": "b", "matchLabels": {"t": "u"}},
        "cordoned": True,
    }
    there = down(new(spec))
    assert there["spec"]["storageClasses"] == {"allowed": ["a"]}
    there["spec"]["storageClasses"] = {"allowed": ["c"]}
    there["spec"]["owners"].insert(0, {"kind": "User", "name": "new"})
    del there["metadata"]["annotations"]["capsule.clastix.io/cordon"]
    back = up(there)["spec"]
    assert back["storageClasses"] == {"allowed": ["c"], "default": "b", "matchLabels": {"t": "u"}}
    assert back["owners"] == [{"kind": "User", "name": "new"}, *spec["owners"]]  # type: ignore[misc]
    assert back["rules"] == spec["rules"]
    assert not back.get("cordoned")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"spec": []}',
        '{"spec": {"rules": 5}}',
        '{"spec": {"cordoned": "yes"}}',
        '{"spec": {"unheard": 1}}',
        '{"spec": {"owners": {}}, "more": 1}',
        '{"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}',
        '{"annotations": {"capsule.clastix.io/cordon": 5}}',
        "[" * 100_000,
        '{"spec": {"data": ' + '{"a":' * 50_000 + "1" + "}" * 50_001 + "}",
        " " * (tenant_conversion.LONGEST + 1),
    ],
    ids=range(13),
)
def test_a_forged_annotation_is_refused_by_name(text: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=r"tenantry[.]io/v1beta2"):
        up(old({}, {KEPT: text}))


def test_what_v1beta1_can_say_is_not_said_by_the_annotation() -> None:
    text = json.dumps(
        {"spec": {"nodeSelector": {"a": "b"}, "owners": [{"kind": "User", "name": "x"}]}}
    )
    found = up(old({}, {KEPT: text}))["spec"]
    assert "nodeSelector" not in found
    assert "owners" not in found


def test_our_annotation_on_a_v1beta2_tenant_is_not_read() -> None:
    found = down(new({}, {KEPT: '{"spec": {"cordoned": true}}'}))
    assert "cordoned" not in noted(found)[KEPT]


def test_odd_objects_do_not_keep_others_from_being_listed() -> None:
    odd: list[Object] = [
        {"owners": 5},
        {"owners": ["x"]},
        {"ingressOptions": 3},
        {"namespaceOptions": []},
    ]
    for spec in odd:
        assert down(new(spec))["apiVersion"] == OLD
    assert down({**new(), "spec": None})["spec"] == {}
