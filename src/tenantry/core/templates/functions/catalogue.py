"""Every function there is: importing this module registers them all."""

from __future__ import annotations

from tenantry.core.templates.functions import (
    builtins,
    cases,
    dates,
    dicts,
    documents,
    encodings,
    expressions,
    lists,
    locations,
    numbers,
    registry,
    strings,
    tables,
    versions,
    words,
)

SUBJECTS = (
    builtins, strings, words, cases, lists, dicts, numbers, encodings, documents, expressions, versions,
    locations, dates, tables,
)  # fmt: skip
FUNCTIONS = registry.FUNCTIONS
