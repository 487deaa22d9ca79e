"""Placeholder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class P:
    name = "minruntime"

    def open(self, session: session.Session) -> None:
        """Register nothing."""


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    del arguments
    return P()
