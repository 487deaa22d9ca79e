"""What the refusals that reconciling a namespace meets mean."""

from __future__ import annotations

import pytest

from tenantry.kube import errors
from tenantry.tenancy.controllers import namespaces


def not_found(kind: str, name: str) -> errors.NotFound:
    details = errors.Details(name=name, kind=kind)
    return errors.NotFound(404, "NotFound", f'{kind} "{name}" not found', details)


def invalid(field: str) -> errors.Invalid:
    cause = errors.Cause(reason="FieldValueInvalid", message="no", field=field)
    return errors.Invalid(422, "Invalid", "is invalid", errors.Details(causes=[cause]))


@pytest.mark.parametrize(
    ("problem", "going"),
    [
        (not_found("namespaces", "prod"), True),
        (
            errors.Forbidden(
                403,
                "Forbidden",
                "unable to create new content in namespace prod because it is being terminated",
            ),
            True,
        ),
        (not_found("clusterroles", "auditor"), False),
        (not_found("rolebindings", "capsule:managed:1"), False),
        (errors.NotFound(404, "NotFound", "page not found"), False),
        (errors.Forbidden(403, "Forbidden", "no"), False),
        (errors.Unreachable("no"), False),
    ],
)
def test_only_a_namespace_that_is_gone_or_goes_is_no_failure(
    problem: errors.KubeError, going: bool
) -> None:
    assert namespaces.is_going(problem) is going


def test_a_missing_role_is_named() -> None:
    said = namespaces.worded(not_found("clusterroles", "auditor"), "auditor")
    assert isinstance(said, errors.NotFound)
    assert 'ClusterRole "auditor"' in said.message
    assert not namespaces.is_going(said)
    gone = not_found("namespaces", "prod")
    assert namespaces.worded(gone, "auditor") is gone


def test_only_another_role_makes_a_binding_a_squatter() -> None:
    assert namespaces.squatted(invalid("roleRef"))
    assert not namespaces.squatted(invalid("subjects[0].name"))
    assert not namespaces.squatted(errors.Invalid(422, "Invalid", "is invalid"))
