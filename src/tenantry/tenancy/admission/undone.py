"""Words for changes that do not last: what a tenant sets on its namespaces is put back; pure.

Silence would say that the change was made: `kubectl label` answers "labeled" to whatever is not
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.tenancy import metadata

#: Warnings of one answer; the API server passes on 4096 bytes in all.
MOST = 8
#: Characters of a key and a value that are repeated.
_SHOWN = 60

Object = Mapping[str, Any]


def warnings(owner: str, old: Object | None, asked: Object, kept: metadata.Metadata) -> list[str]:
    """Return a warning for each label or annotation that was asked for in vain.

    :param owner: the tenant
    :param old: the namespace as it is stored, None for a new one
    :param asked: the namespace as somebody wants it
    :param kept: the labels and annotations that it will have
    """
    before, wanted = metadata.of(old), metadata.of(asked)
    found = [
        *_part("label", owner, before.labels, wanted.labels, kept.labels),
        *_part("annotation", owner, before.annotations, wanted.annotations, kept.annotations),
    ]
    more = len(found) - MOST
    return found if more <= 0 else [*found[:MOST], f"and {more} more that do not last"]


def _part(
    what: str,
    owner: str,
    before: Mapping[str, str],
    asked: Mapping[str, str],
    kept: Mapping[str, str],
) -> Iterator[str]:
    for key in sorted(before.keys() | asked.keys()):
        value, stays = asked.get(key), kept.get(key)
        if value == stays or value == before.get(key):
            continue
        about = f'{what} "{_cut(key)}" is kept by tenant "{owner}"'
        tried = (
            f'"{_cut(value)}" does not last' if value is not None else "removing it does nothing"
        )
        if stays is None:
            yield f"{about}: {tried}; namespaces have only what the tenant sets"
        else:
            yield f'{about}: it stays "{_cut(stays)}", {tried}'


def _cut(text: str) -> str:
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    # Warnings travel in a header.
    return "".join(char if char.isprintable() else "?" for char in shown)
