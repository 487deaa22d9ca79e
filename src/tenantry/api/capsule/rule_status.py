"""RuleStatus: the rules that hold in one namespace, for people and programs to read."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common
from tenantry.api.capsule import rules as blocks


class RuleStatusStatus(common.Wire, kw_only=True):
    """What holds."""

    rules: list[blocks.RuleBody] = []
    """Rules in force, in their order, with their templates filled."""
    rule: blocks.RuleBody | None = None
    """Deprecated: see `rules`."""
    conditions: common.Conditions = []
    """State of the rules, by aspect."""
    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""


class RuleStatus(common.Wire, kw_only=True):
    """The rules of a tenant that hold in one of its namespaces.

    `capsule-managed-rules` is written by the controller; what admission decides rests on the Tenant
    itself and never waits for it.
    """

    metadata: meta.ObjectMeta
    spec: list[blocks.RuleBody] = []
    """Rules whose selector matches the namespace, in their order, with their templates filled."""
    status: RuleStatusStatus = msgspec.field(default_factory=RuleStatusStatus)
    """What holds; written by the controller."""
