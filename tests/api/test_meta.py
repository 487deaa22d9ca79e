from __future__ import annotations

import msgspec
import pytest

from tenantry.api import admission, meta
from tenantry.core import selectors

FULL = {
    "name": "web-0",
    "generateName": "web-",
    "namespace": "shop",
    "uid": "u-1",
    "resourceVersion": "12",
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "ownerReferences": [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "web",
            "uid": "u-0",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
    "finalizers": ["example.com/hold"],
}


def test_metadata_survives_a_round_trip() -> None:
    decoded = msgspec.convert(FULL, meta.ObjectMeta)
    assert decoded.resource_version == "12"
    assert decoded.owner_references[0].block_owner_deletion is True
    assert msgspec.json.decode(msgspec.json.encode(decoded)) == FULL


def test_absent_and_null_parts_are_left_out() -> None:
    decoded = msgspec.json.decode(
        b'{"name":"x","creationTimestamp":null,"managedFields":[{"manager":"m"}]}',
        type=meta.ObjectMeta,
    )
    assert decoded == meta.ObjectMeta(name="x")
    assert msgspec.json.encode(decoded) == b'{"name":"x"}'


def test_objects_do_not_share_their_containers() -> None:
    one, other = meta.ObjectMeta(), meta.ObjectMeta()
    one.labels["a"] = "b"
    one.finalizers.append("x")
    assert other == meta.ObjectMeta()


def test_label_selector_is_what_the_matcher_takes() -> None:
    selector = msgspec.convert(
        {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
        },
        meta.LabelSelector,
    )
    match = selectors.matcher(selector.plain())
    assert match({"a": "b", "c": "d"})
    assert not match({"a": "b", "c": "e"})


def test_condition_requires_type_and_status() -> None:
    with pytest.raises(msgspec.ValidationError, match="status"):
        msgspec.convert({"type": "Ready"}, meta.Condition)
    condition = msgspec.convert(
        {"type": "Ready", "status": "True", "lastTransitionTime": "t", "observedGeneration": 2},
        meta.Condition,
    )
    assert (condition.last_transition_time, condition.observed_generation) == ("t", 2)


def test_subject_writes_its_group() -> None:
    subject = meta.Subject(kind="User", name="alice", api_group="rbac.authorization.k8s.io")
    assert msgspec.to_builtins(subject) == {
        "kind": "User",
        "name": "alice",
        "apiGroup": "rbac.authorization.k8s.io",
    }


def test_review_is_decoded_with_raw_objects_and_answered_in_base64() -> None:
    review = msgspec.json.decode(
        b"""{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{
        "uid":"1","kind":{"group":"","version":"v1","kind":"Pod"},
        "resource":{"group":"","version":"v1","resource":"pods"},"subResource":"binding",
        "operation":"CREATE","userInfo":{"username":"alice","groups":["g"],
        "extra":{"k":["v"]}},"object":{"a": 1},"oldObject":null,"dryRun":true,"options":null}}""",
        type=admission.AdmissionReview,
    )
    request = review.request
    assert request is not None
    assert (request.sub_resource, request.user_info.username, request.dry_run) == (
        "binding",
        "alice",
        True,
    )
    assert admission.present(request.object)
    assert not admission.present(request.old_object)
    assert not admission.present(
        msgspec.convert(
            {"uid": "1", "kind": {}, "resource": {}, "operation": "DELETE"},
            admission.AdmissionRequest,
        ).object
    )
    answer = admission.AdmissionReview(
        api_version=admission.GROUP_VERSION,
        kind="AdmissionReview",
        response=admission.AdmissionResponse(
            uid="1", allowed=False, patch=b"[]", patch_type="JSONPatch"
        ),
    )
    assert msgspec.to_builtins(msgspec.json.decode(msgspec.json.encode(answer)))["response"] == {
        "uid": "1",
        "allowed": False,
        "patch": "W10=",
        "patchType": "JSONPatch",
    }
