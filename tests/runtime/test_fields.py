from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import fields

US = "tenantry/tenancy"


def entry(fields_v1: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "manager": US,
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_v1,
        **more,
    }


def observed(body: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": "x",
        "uid": "u",
        "resourceVersion": "5",
        "managedFields": list(entries),
        **body.pop("metadata", {}),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}


def desired(body: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", **body.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}


LABEL: Any = {"f:metadata": {"f:labels": {"f:a": {}}}}
PORTS: Any = {
    "f:spec": {
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}},
        }
    }
}
SET: Any = {"f:metadata": {"f:finalizers": {'v:"one"': {}, 'v:"two"': {}}}}
ATOMIC: Any = {"f:subjects": {}}
#: As the API server writes it: by key, and each as a whole.
OWNERS: Any = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}}}


@pytest.mark.parametrize(
    ("want", "have", "owned", "expected"),
    [
        ({"data": {"a": "1"}}, {"data": {"a": "1"}}, {"f:data": {"f:a": {}}}, False),
        ({"data": {"a": "2"}}, {"data": {"a": "1"}}, {"f:data": {"f:a": {}}}, True),
        # What others have set is theirs.
        ({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, {"f:data": {"f:a": {}}}, False),
        # Right by chance, or taken from us: must be ours.
        ({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1", "b": "2"}}, {"f:data": {"f:a": {}}}, True),
        # Ours, and no longer wanted.
        ({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, {"f:data": {"f:a": {}, "f:b": {}}}, True),
        ({}, {"data": {"a": "1"}}, {"f:data": {"f:a": {}}}, True),
        ({"data": None}, {}, {}, False),
        ({"data": {"a": None}}, {"data": {}}, {"f:data": {}}, True),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "1"}}}, LABEL, False),
        ({"metadata": {"labels": {}}}, {"metadata": {"labels": {"a": "1"}}}, LABEL, True),
        ({}, {}, {}, False),
        # An associative list: the protocol was filled in by the server.
        ({"spec": {"ports": [{"port": 80, "name": "w"}]}},
         {"spec": {"ports": [{"port": 9, "protocol": "UDP"}, {"port": 80, "protocol": "TCP", "name": "w"}]}},
         PORTS, False),
        ({"spec": {"ports": [{"port": 80, "name": "v"}]}},
         {"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "w"}]}}, PORTS, True),
        ({"spec": {"ports": []}},
         {"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "w"}]}}, PORTS, True),
        ({"spec": {"ports": [{"port": 80, "name": "w"}, {"port": 81, "name": "x"}]}},
         {"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "w"}]}}, PORTS, True),
        ({"spec": {"ports": [{"port": 80, "protocol": "UDP", "name": "w"}]}},
         {"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "w"}]}}, PORTS, True),
        ({"spec": {"ports": [{"port": 80, "name": "w"}]}}, {"spec": {"ports": []}}, PORTS, True),
        ({"spec": {"ports": [{"port": 80, "name": "w"}]}}, {"spec": {"ports": ["odd"]}}, PORTS, True),
        # A set.
        ({"metadata": {"finalizers": ["two", "one"]}},
         {"metadata": {"finalizers": ["x", "one", "two"]}}, SET, False),
        ({"metadata": {"finalizers": ["one"]}}, {"metadata": {"finalizers": ["one", "two"]}}, SET, True),
        ({"metadata": {"finalizers": ["one", "two", "three"]}},
         {"metadata": {"finalizers": ["one", "two", "three"]}}, SET, True),
        # An atomic list is compared whole and in order.
        ({"subjects": [{"n": 1}, {"n": 2}]}, {"subjects": [{"n": 1}, {"n": 2}]}, ATOMIC, False),
        ({"subjects": [{"n": 2}, {"n": 1}]}, {"subjects": [{"n": 1}, {"n": 2}]}, ATOMIC, True),
        ({"subjects": [{"n": 1}]}, {"subjects": [{"n": 1, "m": 2}]}, ATOMIC, True),
        ({"subjects": []}, {"subjects": []}, ATOMIC, False),
        # So are items of a list by keys, where others may have theirs.
        ({"metadata": {"ownerReferences": [{"uid": "u", "controller": True}]}},
         {"metadata": {"ownerReferences": [{"uid": "x"}, {"uid": "u", "controller": True}]}}, OWNERS, False),
        ({"metadata": {"ownerReferences": [{"uid": "u", "controller": True}]}},
         {"metadata": {"ownerReferences": [{"uid": "u", "controller": False}]}}, OWNERS, True),
        ({"metadata": {"ownerReferences": [{"uid": "u"}]}},
         {"metadata": {"ownerReferences": [{"uid": "u", "controller": True}]}}, OWNERS, True),
        ({"metadata": {"ownerReferences": [{"uid": "v"}]}},
         {"metadata": {"ownerReferences": [{"uid": "u"}, {"uid": "v"}]}}, OWNERS, True),
        ({"immutable": True}, {"immutable": 1}, {"f:immutable": {}}, True),
    ],
)  # fmt: skip
def test_differs(
    want: dict[str, Any], have: dict[str, Any], owned: dict[str, Any], expected: bool
) -> None:
    assert fields.differs(desired(want), observed(have, entry(owned)), US) is expected


def test_what_was_never_applied_by_us_differs() -> None:
    owned: Any = {"f:data": {"f:a": {}}}
    want, have = {"data": {"a": "1"}}, {"data": {"a": "1"}}
    for other in (
        entry(owned, manager="kubectl"),
        entry(owned, operation="Update"),
        entry(owned, subresource="status"),
    ):
        assert fields.differs(desired(dict(want)), observed(dict(have), other), US)
    assert fields.differs(desired(dict(want)), observed(dict(have)), US)


def test_a_status_is_looked_up_under_its_subresource() -> None:
    have = observed(
        {"status": {"ready": True}},
        entry({"f:spec": {}}),
        entry({"f:status": {"f:ready": {}}}, subresource="status"),
    )
    assert not fields.differs(desired({"status": {"ready": True}}), have, US, subresource="status")
    assert fields.differs(desired({"status": {"ready": False}}), have, US, subresource="status")


def test_adopts_what_the_product_before_us_has_written() -> None:
    before = entry({"f:data": {"f:a": {}, "f:b": {}}}, manager="capsule", operation="Update")
    other = entry({"f:data": {"f:c": {}}}, manager="kubectl-edit", operation="Update")
    status = entry({"f:status": {}}, manager="capsule", operation="Update", subresource="status")
    ours = entry({"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}})
    result = fields.adopt_fields(observed({}, before, other, status, ours), ["capsule"], US)

    assert result is not None
    assert result == [
        other,
        status,
        entry({"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}),
    ]
    assert before["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}}}, "the argument is not changed"


def test_adopting_twice_changes_nothing() -> None:
    before = entry({"f:data": {"f:a": {}}}, manager="capsule", operation="Update")
    once = fields.adopt_fields(observed({}, before), ["capsule"], US)

    assert once == [entry({"f:data": {"f:a": {}}})]
    assert fields.adopt_fields(observed({}, *once), ["capsule"], US) is None
    assert fields.adopt_fields({}, ["capsule"], US) is None
