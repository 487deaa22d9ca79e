from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration
from tenantry.directory import identity
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import nodes

CONFIG = {
    "nodeMetadata": {
        "forbiddenLabels": {"denied": ["pool", "zone"], "deniedRegex": "^gpu[.]"},
        "forbiddenAnnotations": {"denied": ["note"]},
    }
}
LABELS = (
    "Unable to update node as some labels are marked as forbidden by system administrator. "
    "Forbidden are one of the following (pool, zone) or matching the regex ^gpu[.]"
)
ANNOTATIONS = (
    "Unable to update node as some annotations are marked as forbidden by system administrator. "
    "Forbidden are one of the following (note) or matching the regex"
)


def judged(
    before: dict[str, Any],
    after: dict[str, Any],
    *,
    klass: identity.Class = identity.Class.CAPSULE,
    config: dict[str, Any] | None = None,
) -> str:
    review = admission.Review(
        uid="r", operation="UPDATE", resource="nodes", name="n",
        object={"metadata": after}, old={"metadata": before},
    )  # fmt: skip
    known = evidence.Evidence(
        requester=identity.Requester("alice"),
        requester_class=klass,
        config=msgspec.convert(
            CONFIG if config is None else config, configuration.CapsuleConfigurationSpec
        ),
        tenants={},
        owners_of=lambda _: (),
    )
    assert nodes.VALIDATING.matches(review)
    found = nodes.VALIDATING.decide(review, known)
    return found.message if isinstance(found, admission.Deny) else ""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"labels": {"pool": "a"}}, LABELS),
        ({"labels": {"pool": "a"}}, {"labels": {"pool": "b"}}, LABELS),
        ({"labels": {"pool": "a"}}, {"labels": {}}, LABELS),
        ({"labels": {"gpu.x": "a"}}, {}, LABELS),
        ({}, {"annotations": {"note": "a"}}, ANNOTATIONS),
        ({"annotations": {"note": "a"}}, {"annotations": None}, ANNOTATIONS),
        # What was there before, and what nobody forbids.
        ({"labels": {"pool": "a"}}, {"labels": {"pool": "a", "own": "b"}}, ""),
        ({}, {"annotations": {"pool": "a"}}, ""),
    ],
)
def test_what_users_may_not_touch(
    before: dict[str, Any], after: dict[str, Any], expected: str
) -> None:
    assert judged(before, after) == expected
    for other in (identity.Class.ADMIN, identity.Class.UNKNOWN):
        assert judged(before, after, klass=other) == ""


@pytest.mark.parametrize("config", [{}, {"nodeMetadata": {}}])
def test_a_configuration_that_says_nothing_forbids_nothing(config: dict[str, Any]) -> None:
    assert judged({}, {"labels": {"pool": "a"}}, config=config) == ""


def test_an_expression_that_nobody_can_read_forbids_all() -> None:
    config = {"nodeMetadata": {"forbiddenLabels": {"deniedRegex": "("}}}
    assert judged({}, {"labels": {"x": "a"}}, config=config).startswith("Unable to update node")
