"""What a tenant's namespaces carry, and who may change it: specs/capsule 4.2 and 5.5."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.api import meta
from tenantry.api.capsule import common, tenant
from tenantry.tenancy import metadata, verdicts

NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
TENANT, NAME = "capsule.clastix.io/tenant", "kubernetes.io/metadata.name"
OWN = {TENANT: "oil", NAME: "oil-dev"}


def make_tenant(options: dict[str, Any] | None = None, **spec: Any) -> tenant.Tenant:
    if options is not None:
        spec["namespace_options"] = tenant.NamespaceOptions(**options)
    return tenant.Tenant(metadata=meta.ObjectMeta(name="oil"), spec=tenant.TenantSpec(**spec))


def extra(labels: dict[str, str] | None = None, **more: Any) -> tenant.SelectedMetadata:
    return tenant.SelectedMetadata(labels=labels or {}, **more)


def desired(owner: tenant.Tenant, found: dict[str, str] | None = None) -> metadata.Metadata:
    return metadata.desired(owner, "oil-dev", metadata.Metadata(found or {}))


def test_every_namespace_carries_its_tenant_and_its_name() -> None:
    assert desired(make_tenant()) == metadata.Metadata(OWN, {})


def test_a_cordoned_tenant_says_so() -> None:
    assert desired(make_tenant(cordoned=True)).labels == {
        **OWN, "projectcapsule.dev/cordoned": "true",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("selector", "annotation"),
    [
        ({"pool": "oil"}, "pool=oil"),
        ({"b": "2", "a": "1", "c": ""}, "a=1,b=2,c="),
        ({"kubernetes.io/os": "linux"}, "kubernetes.io/os=linux"),
    ],
)
def test_the_node_selector_is_sorted_pairs(selector: dict[str, str], annotation: str) -> None:
    owner = make_tenant(node_selector=selector)
    assert desired(owner).annotations == {NODE_SELECTOR: annotation}


def test_an_earlier_key_wins_and_ours_beat_all() -> None:
    owner = make_tenant(
        {
            "additional_metadata": common.Metadata(
                labels={"a": "1", TENANT: "gas"}, annotations={"n": "1", NODE_SELECTOR: "evil=1"}
            ),
            "additional_metadata_list": [
                extra({"a": "2", "b": "2"}, annotations={"n": "2", "m": "2"}),
                extra({"b": "3", "c": "3", "projectcapsule.dev/cordoned": "false"}),
            ],
        },
        node_selector={"pool": "oil"},
        cordoned=True,
    )
    found = desired(owner)
    assert found.labels == {
        **OWN, "a": "1", "b": "2", "c": "3", "projectcapsule.dev/cordoned": "true",
    }  # fmt: skip
    assert found.annotations == {"n": "1", "m": "2", NODE_SELECTOR: "pool=oil"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, {"all": "x"}),
        ({"env": "prod"}, {"all": "x", "prod": "x"}),
        ({"env": "dev"}, {"all": "x"}),
    ],
)
def test_selectors_choose_namespaces_by_their_labels(
    found: dict[str, str], expected: dict[str, str]
) -> None:
    owner = make_tenant(
        {
            "additional_metadata_list": [
                extra({"all": "x"}),
                extra(
                    {"prod": "x"},
                    namespace_selector=meta.LabelSelector(match_labels={"env": "prod"}),
                ),
                extra(
                    {"never": "x"},
                    namespace_selector=meta.LabelSelector(
                        match_expressions=[
                            meta.LabelSelectorRequirement(key="env", operator="Nonsense")
                        ]
                    ),
                ),
            ]
        }
    )
    assert desired(owner, found).labels == {**OWN, **expected}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("{{tenant.name}}", "oil"),
        ("{{ tenant.name }}", "oil"),
        ("{{namespace}}", "oil-dev"),
        ("{{  namespace}}", "oil-dev"),
        ("{{tenant.name}}.{{ namespace }}", "oil.oil-dev"),
        ("{{.tenant.name}}", "{{.tenant.name}}"),
        ("{{tenant.spec}}", "{{tenant.spec}}"),
        ("{tenant.name}", "{tenant.name}"),
        ("{{tenantXname}}", "{{tenantXname}}"),
    ],
)
def test_templates(value: str, expected: str) -> None:
    listed = make_tenant(
        {"additional_metadata_list": [extra({"k": value}, annotations={"k": value})]}
    )
    found = desired(listed)
    assert (found.labels["k"], found.annotations["k"]) == (expected, expected)


def test_the_older_field_is_taken_as_it_stands() -> None:
    owner = make_tenant(
        {"additional_metadata": common.Metadata(annotations={"k": "{{namespace}}"})}
    )
    assert desired(owner).annotations == {"k": "{{namespace}}"}


def test_filled_in_text_is_not_filled_in_again() -> None:
    assert metadata.rendered("{{namespace}}", "oil", "{{tenant.name}}") == "{{tenant.name}}"


def test_what_needs_the_name_waits_until_there_is_one() -> None:
    owner = make_tenant(
        {
            "additional_metadata_list": [
                extra({"t": "{{tenant.name}}", "n": "{{namespace}}-x", "p": "x"},
                      annotations={"n": "{{ namespace }}"})
            ]
        }
    )  # fmt: skip
    found = metadata.desired(owner, "", metadata.Metadata())
    assert found == metadata.Metadata({TENANT: "oil", "t": "oil", "p": "x"}, {})


@pytest.mark.parametrize(
    "obj", [None, {}, {"metadata": None}, {"metadata": {"labels": None, "annotations": None}}]
)
def test_an_object_without_metadata_has_none(obj: dict[str, Any] | None) -> None:
    assert metadata.of(obj) == metadata.Metadata({}, {})


def message(found: verdicts.Denial | None) -> str | None:
    assert found is None or found.code == 403
    return found.message if found is not None else None


SELECTED = make_tenant(node_selector={"pool": "oil"})
REMOVED = f"the {NODE_SELECTOR} annotation is enforced via tenant, cannot be removed"
UPDATED = f"the {NODE_SELECTOR} annotation is enforced via tenant, cannot be updated"


@pytest.mark.parametrize(
    ("owner", "before", "after", "expected"),
    [
        pytest.param(SELECTED, "pool=oil", "pool=oil", None, id="kept"),
        pytest.param(SELECTED, None, "pool=oil", None, id="set"),
        pytest.param(SELECTED, "pool=gas", "pool=oil", None, id="repaired"),
        pytest.param(SELECTED, "pool=oil", None, REMOVED, id="removed"),
        pytest.param(SELECTED, "pool=oil", "pool=gas", UPDATED, id="changed"),
        pytest.param(SELECTED, "pool=oil", "pool=oil,gpu=yes", UPDATED, id="narrowed"),
        pytest.param(SELECTED, "pool=oil", "", UPDATED, id="emptied"),
        pytest.param(SELECTED, "pool=gas", "pool=gas", None, id="damage is not the requester's"),
        pytest.param(make_tenant(), None, None, None, id="no selector"),
        pytest.param(make_tenant(), None, "pool=gas", UPDATED, id="chosen by the user"),
        pytest.param(make_tenant(), "pool=gas", None, UPDATED, id="chosen by somebody else"),
    ],
)
def test_the_node_selector_is_the_tenants(
    owner: tenant.Tenant, before: str | None, after: str | None, expected: str | None
) -> None:
    old, new = (
        metadata.Metadata({}, {} if value is None else {NODE_SELECTOR: value})
        for value in (before, after)
    )
    assert message(metadata.check_node_selector(owner, old, new)) == expected


def forbidden(**options: Any) -> tenant.Tenant:
    return make_tenant(options)


LABELS = {"forbidden_labels": common.Forbidden(denied=["a"], denied_regex="^evil/")}
LABEL_WORDS = (
    "namespace labels validation failed: label {key} is forbidden for the current Tenant. "
    "Forbidden are one of the following (a) or matching the regex ^evil/"
)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({}, {"b": "1", "good/evil": "1"}, None, id="others"),
        pytest.param({}, {"a": "1"}, "a", id="added"),
        pytest.param({"a": "1"}, {"a": "2"}, "a", id="changed"),
        pytest.param({"a": "1"}, {"a": "1", "b": "2"}, None, id="untouched"),
        pytest.param({"a": "1"}, {}, None, id="removed"),
        pytest.param({}, {"evil/x": "1"}, "evil/x", id="by expression"),
    ],
)
def test_forbidden_labels(before: dict[str, str], after: dict[str, str], key: str | None) -> None:
    found = metadata.check_forbidden(
        forbidden(**LABELS), "oil-dev", metadata.Metadata(before), metadata.Metadata(after)
    )
    assert message(found) == (LABEL_WORDS.format(key=key) if key else None)
    # Annotations have a rule of their own.
    assert not metadata.check_forbidden(
        forbidden(**LABELS), "oil-dev", metadata.Metadata({}, before), metadata.Metadata({}, after)
    )


def test_forbidden_annotations() -> None:
    owner = forbidden(forbidden_annotations=common.Forbidden(denied=["a", "b"]))
    found = metadata.check_forbidden(
        owner, "oil-dev", metadata.Metadata(), metadata.Metadata({}, {"b": "1"})
    )
    assert message(found) == (
        "namespace annotations validation failed: annotation b is forbidden for the current "
        "Tenant. Forbidden are one of the following (a, b) or matching the regex"
    )


def test_what_the_tenant_itself_sets_is_never_forbidden() -> None:
    owner = forbidden(
        forbidden_labels=common.Forbidden(denied_regex=".*"),
        forbidden_annotations=common.Forbidden(denied_regex=".*"),
        additional_metadata=common.Metadata(labels={"a": "1"}, annotations={"a": "1"}),
    )
    own = desired(owner)
    assert not metadata.check_forbidden(owner, "oil-dev", metadata.Metadata(), own)
    other = metadata.Metadata({**own.labels, "a": "2"}, own.annotations)
    assert metadata.check_forbidden(owner, "oil-dev", metadata.Metadata(), other)


def test_without_options_nothing_is_forbidden_or_required() -> None:
    for owner in (make_tenant(), make_tenant({"quota": 3})):
        new = metadata.Metadata({"a": "1"}, {"a": "1"})
        assert metadata.check_forbidden(owner, "n", metadata.Metadata(), new) is None
        assert metadata.check_required(owner, None, metadata.Metadata()) is None


REQUIRED = make_tenant(
    {
        "required_metadata": common.Metadata(
            labels={"cc": r"^cc-\d+$", "any": ""}, annotations={"contact": "@"}
        )
    }
)
GOOD = metadata.Metadata({"cc": "cc-1", "any": "x"}, {"contact": "me@example.com"})


def changed(**labels: str | None) -> metadata.Metadata:
    wanted = {**GOOD.labels, **labels}
    return metadata.Metadata({k: v for k, v in wanted.items() if v is not None}, GOOD.annotations)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, GOOD, None, id="good"),
        pytest.param(None, changed(cc=None), 'required label "cc" not present', id="missing"),
        pytest.param(
            None, changed(cc="x-cc-1"),
            'required label "cc" value "x-cc-1" does not match regex "^cc-\\d+$"', id="other value",
        ),
        pytest.param(None, changed(any=""), None, id="an empty expression matches anything"),
        pytest.param(None, changed(any=None), 'required label "any" not present', id="but needs it"),
        pytest.param(
            None, metadata.Metadata(GOOD.labels), 'required annotation "contact" not present',
            id="annotation missing",
        ),
        pytest.param(
            None, metadata.Metadata(GOOD.labels, {"contact": "me"}),
            'required annotation "contact" value "me" does not match regex "@"',
            id="annotation value",
        ),
        pytest.param(GOOD, changed(cc="cc-2"), None, id="changed well"),
        pytest.param(
            GOOD, changed(cc="x"), 'required label "cc" value "x" does not match regex "^cc-\\d+$"',
            id="changed badly",
        ),
        pytest.param(GOOD, changed(cc=None), 'required label "cc" not present', id="removed"),
        pytest.param(changed(cc=None), changed(cc=None), None, id="missing before"),
        pytest.param(changed(cc="x"), changed(cc="x"), None, id="wrong before"),
        pytest.param(changed(cc=None), GOOD, None, id="repaired"),
    ],
)  # fmt: skip
def test_required_metadata(
    old: metadata.Metadata | None, new: metadata.Metadata, expected: str | None
) -> None:
    assert message(metadata.check_required(REQUIRED, old, new)) == expected


def test_an_invalid_expression_stored_before_refuses_and_does_not_crash() -> None:
    owner = make_tenant({"required_metadata": common.Metadata(labels={"a": "("})})
    assert metadata.check_required(owner, None, metadata.Metadata({"a": "x"})) is not None


PAIRS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)


@given(PAIRS, PAIRS, PAIRS, st.booleans())
def test_wanting_twice_is_wanting_once(
    first: dict[str, str], second: dict[str, str], found: dict[str, str], cordoned: bool
) -> None:
    owner = make_tenant(
        {
            "additional_metadata": common.Metadata(labels=first),
            "additional_metadata_list": [extra(second)],
        },
        cordoned=cordoned,
    )
    once = desired(owner, found)
    assert desired(owner, {**found, **once.labels}) == once
    assert once.labels.items() >= {**OWN, **first}.items()
    assert metadata.check_required(owner, None, once) is None


def test_hints_about_classes_registries_and_forbidden_keys() -> None:
    owner = msgspec.convert(
        {
            "metadata": {
                "name": "oil",
                "annotations": {
                    "capsule.clastix.io/forbidden-namespace-labels": "a.io/x,b",
                    "capsule.clastix.io/forbidden-namespace-annotations-regexp": "^c",
                    "other": "stays",
                },
            },
            "spec": {
                "ingressOptions": {"allowedClasses": {"allowed": ["b", "a"], "allowedRegex": "^i"}},
                "storageClasses": {"allowed": ["fast"], "default": "fast"},
                "containerRegistries": {"allowedRegex": "^r"},
            },
        },
        tenant.Tenant,
    )
    assert metadata.desired(owner, "oil-a", metadata.Metadata({}, {})).annotations == {
        "capsule.clastix.io/ingress-classes": "b,a",
        "capsule.clastix.io/ingress-classes-regexp": "^i",
        "capsule.clastix.io/storage-classes": "fast",
        "capsule.clastix.io/allowed-registries-regexp": "^r",
        "capsule.clastix.io/forbidden-namespace-labels": "a.io/x,b",
        "capsule.clastix.io/forbidden-namespace-annotations-regexp": "^c",
    }
