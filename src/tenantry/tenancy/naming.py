"""Names that a tenant wants its namespaces to have (`namespaceOptions.nameTemplate`).

Capsule knows `<tenant>-` at the beginning, or nothing. A template can say more: what comes first,
what last, and how many parts there are. It is Tenantry's own.
"""

from __future__ import annotations

import re

from tenantry.api.capsule import tenant
from tenantry.core import errors, names, regex
from tenantry.tenancy import verdicts

#: How a refusal begins.
REFUSED = "The Namespace name must be like"
FREE = "*"
FIELD = "spec.namespaceOptions.nameTemplate"

_TENANT = re.compile(r"\{\{\s*tenant\.name\s*\}\}")


def wanted(owner: tenant.Tenant) -> str:
    """Return what names must be like, `*` for any text; "" for anything."""
    options = owner.spec.namespace_options
    template = "" if options is None else options.name_template or ""
    # A function, so that nothing in a name is taken for a reference to a group.
    return _TENANT.sub(lambda _: owner.metadata.name, template)


def refusal(owner: tenant.Tenant, name: str) -> verdicts.Denial | None:
    """Refuse a name that is not as the tenant wants it."""
    like = wanted(owner)
    if not like or _fits(like, name):
        return None
    return verdicts.Denial(
        f'{REFUSED} "{like}" (nameTemplate of Tenant {owner.metadata.name}; {FREE} is any text of '
        f'at least one character), not "{name}"'
    )


def _fits(like: str, name: str) -> bool:
    return bool(regex.found(f"^{re.escape(like).replace(re.escape(FREE), '.+')}$", name))


def problems(owner: tenant.Tenant) -> list[str]:
    """Return what is wrong with a template."""
    like = wanted(owner)
    options = owner.spec.namespace_options
    if not like or options is None:
        return []
    if FREE not in like or not names.is_dns_label(like.replace(FREE, "x")):
        return [
            f"{FIELD}: Invalid value: {errors.shown(options.name_template)}: must be lower case "
            f"letters, digits, '-', {FREE} and {{{{tenant.name}}}}, hold at least one {FREE}, and "
            f"make at most 63 characters"
        ]
    return []
