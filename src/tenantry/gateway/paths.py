"""Which object or collection a request is about. Pure.

Only an exact spelling is recognised; everything else is left to the API server under the caller's
own identity. Spellings that are made to be understood differently by two servers are refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from urllib import parse

from tenantry.gateway import errors

_SEGMENT = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9._:]*")
#: What proxied servers serve below is theirs to spell.
_PROXIED = re.compile(
    r"/api/v1/(?:namespaces/[^/]+/(?:pods|services)|nodes)/[^/]+/proxy(?:/.*)?", re.DOTALL
)
_ODD = re.compile(r"//|/\.{1,2}(?:/|$)|;|\\", re.DOTALL)
#: Percent-encoded letters, digits, dots, slashes, ...: nobody encodes them with good intentions.
_DISGUISED = re.compile(
    r"%(?:[01][0-9a-f]|2[5def]|3[0-9b]|4[1-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9aef])", re.IGNORECASE
)

NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))
SELF_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SELF_RULES_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What a path of the resource API stands for."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        """Write the path anew."""
        parts = ["/apis", self.group] if self.group else ["/api"]
        parts.append(self.version)
        if self.namespace:
            parts += ["namespaces", self.namespace]
        parts.append(self.plural)
        parts += [part for part in (self.name, self.subresource) if part]
        return "/".join(parts)

    def inside(self, namespace: str) -> Target:
        """Return the same collection in one namespace."""
        return dataclasses.replace(self, namespace=namespace)


def check(path: str) -> None:
    """Refuse a spelling that could be read in two ways.

    :raises Malformed: naming what is wrong with it
    """
    if _PROXIED.fullmatch(path):
        return
    if _ODD.search(path):
        raise errors.Malformed("path has empty or dot segments, a semicolon or a backslash")
    if "%" in path and _DISGUISED.search(path):
        raise errors.Malformed("path has characters that are encoded without need")


def parse_path(path: str) -> Target | None:
    """Return what a path of the resource API stands for; None for any other path."""
    parts = path.split("/")
    if parts[-1] == "" and len(parts) > 2:
        parts.pop()
    if len(parts) < 2 or parts[0]:
        return None
    if parts[1] == "api":
        group, rest = "", parts[2:]
    elif parts[1] == "apis" and len(parts) > 2:
        group, rest = parts[2], parts[3:]
        if not group:
            return None
    else:
        return None
    if len(rest) < 2 or not all(map(_SEGMENT.fullmatch, rest)):
        return None
    if group and not _SEGMENT.fullmatch(group):
        return None
    return _resource(group, rest[0], rest[1:])


def _resource(group: str, version: str, parts: Sequence[str]) -> Target | None:
    if parts[0] == "watch":
        # The deprecated prefix; it is the caller's own business.
        return None
    namespaced = parts[0] == "namespaces" and len(parts) > 2
    if namespaced and not (len(parts) == 3 and parts[2] in NAMESPACE_SUBRESOURCES):
        namespace, parts = parts[1], parts[2:]
    else:
        namespace = ""
    plural, name, *below = [*parts, "", ""][: max(3, len(parts))]
    return Target(group, version, plural, namespace, name, "/".join(filter(None, below)))


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request, decoded once."""

    items: tuple[tuple[str, str], ...]

    @property
    def watch(self) -> bool:
        """Whether the API server would watch: it takes any value but two for yes."""
        value = self.first("watch")
        return value is not None and value.lower() not in {"false", "0"}

    def first(self, key: str) -> str | None:
        for name, value in self.items:
            if name == key:
                return value
        return None

    def narrowed(self, selector: str) -> str:
        """Write the query anew, with a label selector that must hold besides the caller's.

        Ours comes first: what follows a complete requirement cannot change its meaning.
        """
        wanted = ",".join(filter(None, (selector, self.first("labelSelector"))))
        return self.written(drop=("labelSelector",), add=(("labelSelector", wanted),))

    def written(self, *, drop: Sequence[str] = (), add: Sequence[tuple[str, str]] = ()) -> str:
        """Write the query anew."""
        kept = [(k, v) for k, v in self.items if k not in drop and k != "watch"]
        if self.watch and "watch" not in drop:
            kept.append(("watch", "true"))
        return parse.urlencode([*kept, *(item for item in add if item[1])])


def parse_query(query: str) -> Query:
    """Decode a query.

    :raises Malformed: when it is not UTF-8 or absurdly long
    """
    try:
        pairs = parse.parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise errors.Malformed("query cannot be understood") from None
    return Query(tuple(pairs))
