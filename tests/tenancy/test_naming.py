"""Names that tenants want for their namespaces."""

from __future__ import annotations

import pytest

from tenantry.api import meta
from tenantry.api.capsule import tenant
from tenantry.tenancy import naming


def owner(template: str | None, name: str = "oil") -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name=name),
        spec=tenant.TenantSpec(namespace_options=tenant.NamespaceOptions(name_template=template)),
    )


@pytest.mark.parametrize(
    ("template", "good", "bad"),
    [
        (None, "anything", None),
        ("", "anything", None),
        ("{{tenant.name}}-*", "oil-x", "gas-x"),
        ("{{ tenant.name }}-*", "oil-x", "oil-"),
        ("acme-{{tenant.name}}-*-dev", "acme-oil-a-b-dev", "acme-oil-dev"),
        ("*-{{tenant.name}}", "x-oil", "x-oil-x"),
        ("*-{{tenant.name}}", "x-oil", "oil"),
        ("t-*-*", "t-a-b", "t-a"),
        ("*", "x", None),
    ],
)
def test_names(template: str | None, good: str, bad: str | None) -> None:
    assert naming.problems(owner(template)) == []
    assert naming.refusal(owner(template), good) is None
    if bad is not None:
        assert naming.refusal(owner(template), bad) is not None


def test_a_refusal_says_what_would_do() -> None:
    refused = naming.refusal(owner("acme-{{tenant.name}}-*"), "x")
    assert refused is not None
    assert refused.message == (
        'The Namespace name must be like "acme-oil-*" (nameTemplate of Tenant oil; * is any text '
        'of at least one character), not "x"'
    )


@pytest.mark.parametrize(
    "template",
    [
        "oil",
        "{{tenant.name}}",
        "Oil-*",
        "oil_*",
        "-*",
        "*-",
        "{{namespace}}-*",
        "(a|b)-*",
        "*" * 64,
    ],
)
def test_templates_that_make_no_names(template: str) -> None:
    (problem,) = naming.problems(owner(template))
    assert problem.startswith("spec.namespaceOptions.nameTemplate: Invalid value: ")


def test_a_name_is_no_expression() -> None:
    # Stored before there was a webhook: means nothing but itself.
    assert naming.refusal(owner("a.c-*"), "abc-x") is not None
    assert naming.refusal(owner("a.c-*"), "a.c-x") is None
