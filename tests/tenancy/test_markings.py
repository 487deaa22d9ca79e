from __future__ import annotations

from typing import Any

import pytest

from tenantry.tenancy import markings

from .policy import policies

MANAGED = {"labels": {"team": {"managed": "a"}}}


def kept(*entries: dict[str, Any], **more: Any) -> markings.Marks:
    rules = [{"enforce": {"action": "allow", "metadata": list(entries)}, **more}]
    return markings.wanted(policies.policy(rules=rules))


def test_what_rules_manage() -> None:
    entry = {
        "apiGroups": ["apps/v1", "v1"],
        "kinds": ["Deployment", "Namespace"],
        **MANAGED,
        "annotations": {"x": {"managed": "y"}, "d": {"default": "z"}},
    }
    parts = {"labels": {"team": "a"}, "annotations": {"x": "y"}}

    assert kept(entry) == {("apps", "Deployment"): parts, ("", "Deployment"): parts}


def test_a_rule_for_some_people_keeps_nothing_on_what_exists() -> None:
    entry = {"kinds": ["Pod"], **MANAGED}

    assert kept(entry, audience=[{"kind": "User", "name": "alice"}]) == {}


def test_the_deprecated_fields_win_over_rules() -> None:
    found = markings.wanted(
        policies.policy(
            rules=[{"enforce": {"metadata": [{"kinds": ["Pod", "Service"], **MANAGED}]}}],
            podOptions={"additionalMetadata": {"labels": {"team": "b", "x": "1"}}},
            serviceOptions={"additionalMetadata": {"annotations": {"y": "2"}}},
        )
    )

    assert found == {
        ("", "Pod"): {"labels": {"team": "b", "x": "1"}},
        ("", "Service"): {"labels": {"team": "a"}, "annotations": {"y": "2"}},
        ("", "Endpoints"): {"annotations": {"y": "2"}},
        ("discovery.k8s.io", "EndpointSlice"): {"annotations": {"y": "2"}},
    }


def test_what_a_rulestatus_of_capsule_says() -> None:
    body = {
        "enforce": {
            "metadata": [
                {
                    "apiGroups": ["apps/v1"],
                    "kinds": ["Deployment", "Namespace"],
                    "labels": {"team": {"managed": "a"}, "d": {"default": "b"}},
                },
                {"kinds": ["Pod"], "annotations": {"x": {"managed": "y"}}},
            ]
        }
    }
    other = {"audience": [{"kind": "User", "name": "a"}], **body}

    assert markings.recorded([body]) == {
        ("apps", "Deployment"): {"labels": {"team": "a"}},
        ("", "Pod"): {"annotations": {"x": "y"}},
    }
    assert markings.recorded([other, {}]) == {}


MARKS: markings.Marks = {
    ("", "Pod"): {"labels": {"a": "1"}},
    ("*", "Job"): {"annotations": {"b": "2"}},
}


LATER: markings.Marks = {("", "Pod"): {"labels": {"a": "3", "c": "4"}}}


def record(*marks: markings.Marks, passed: str = "") -> markings.Record:
    return markings.Record(marks, passed)


@pytest.mark.parametrize("passed", ["", "n1"])
def test_a_record_is_read_as_it_was_written(passed: str) -> None:
    found = record(MARKS, {}, passed=passed)

    assert markings.read(markings.written(found)) == found
    assert markings.written(record()) == ""


def test_a_record_of_an_earlier_release_does_not_say_that_objects_were_gone_through() -> None:
    text = '[[{"group":"","kind":"Pod","labels":{"a":"3","c":"4"}}]]'

    assert markings.read(text) == record(LATER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        "1",
        "[1]",
        "[[{}]]",
        '[[{"group":"","kind":"Pod","labels":1}]]',
        '{"kept":1,"passed":"n1"}',
        '{"kept":[[{"kind":"Pod"}]],"passed":"n1"}',
    ],
)
def test_a_record_that_somebody_spoilt_says_nothing(text: str) -> None:
    assert markings.read(text) == record()


def test_only_text_names_a_namespace() -> None:
    assert markings.read('{"kept":[],"passed":["n1"]}') == record()


def test_old_marks_stay_on_record_until_they_are_gone() -> None:
    def after(wanted: markings.Marks, *before: markings.Marks) -> markings.Record:
        return markings.on_record(wanted, record(*before), "n1")

    assert after(LATER, MARKS) == record(LATER, MARKS)
    assert after(MARKS, LATER, MARKS) == record(MARKS, LATER)
    assert after({}, LATER) == record(LATER)
    assert after({}) == record()


def test_that_objects_were_gone_through_holds_for_the_same_marks_in_the_same_namespace() -> None:
    done = markings.settled(MARKS, "n1")

    assert done == record(MARKS, passed="n1")
    assert markings.on_record(MARKS, done, "n1") == done
    # Other rules, a copy in another namespace, marks left from before, nothing wanted any more.
    assert markings.on_record(LATER, done, "n1") == record(LATER, MARKS)
    assert markings.on_record(MARKS, done, "n2") == record(MARKS)
    assert markings.on_record(MARKS, record(MARKS, LATER, passed="n1"), "n1") == record(
        MARKS, LATER
    )
    assert markings.on_record({}, done, "n1") == record(MARKS)
    assert markings.on_record({}, record({}, passed="n1"), "n1") == record()
    assert markings.settled({}, "n1") == record()


def test_rules_for_any_group_are_for_each() -> None:
    marks: markings.Marks = {
        ("*", "Job"): {"labels": {"a": "1", "b": "1"}},
        ("batch", "Job"): {"labels": {"b": "2"}},
    }

    assert markings.by_place(marks, "batch", "Job") == {"labels": {"a": "1", "b": "2"}}
    assert markings.by_place(marks, "other", "Job") == {"labels": {"a": "1", "b": "1"}}
    assert markings.by_place(marks, "batch", "Pod") == {}


def test_an_object_gets_what_it_lacks() -> None:
    parts = {"labels": {"a": "1", "b": "2"}}

    assert markings.lacking({"metadata": {"labels": {"a": "1"}}}, parts) == parts
    assert markings.lacking({"metadata": {"labels": {"a": "1", "b": "2", "c": "3"}}}, parts) == {}


def test_only_the_value_that_was_kept_is_taken_away() -> None:
    before = [{"labels": {"a": "1", "b": "2", "c/d": "1"}}, {"labels": {"c/d": "3"}}]
    obj = {"metadata": {"labels": {"a": "1", "b": "mine", "c/d": "3"}}}

    assert markings.leftover(obj, before, {"labels": {"a": "9"}}) == [
        {"op": "test", "path": "/metadata/labels/c~1d", "value": "3"},
        {"op": "remove", "path": "/metadata/labels/c~1d"},
    ]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"labels": {"projectcapsule.dev/managed-by": "controller"}}, True),
        ({"labels": {"projectcapsule.dev/managed-by": "resources"}}, True),
        ({"labels": {"projectcapsule.dev/managed-by": "Controller"}}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_what_is_let_be(metadata: dict[str, Any], expected: bool) -> None:
    assert markings.is_let_be({"metadata": metadata}) is expected
