"""Image references: registry, repository, tag and digest, as container runtimes read them.

Grammar: the OCI distribution specification and what runtimes make of short names: the first
segment is a registry when it could be a host (a dot, a colon, `localhost`, or a capital letter),
else the image is on Docker Hub. The only parser of the product: who compares images compares the
forms it gives, so that one image under two names is one image.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tenantry.core import errors

DOCKER_HUB = "docker.io"
LATEST = "latest"

_HUB_ALIASES = ("docker.io", "index.docker.io", "registry-1.docker.io")
_LONGEST = 1024
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_SEGMENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image reference taken apart."""

    written: str
    """as its author wrote it"""
    registry: str
    """host and port in lower case, Docker Hub when none was written"""
    repository: str
    """path in the registry, such as ``library/nginx``"""
    tag: str = ""
    digest: str = ""
    qualified: bool
    """whether the registry was written"""

    @property
    def canonical(self) -> str:
        """Return the full name, with the tag that runtimes assume where none is written."""
        tag = self.tag or ("" if self.digest else LATEST)
        return self._named(tag, self.digest)

    @functools.cached_property
    def forms(self) -> tuple[str, ...]:
        """Return every way to write exactly this image that rules may have in mind."""
        return tuple(
            dict.fromkeys((self.written, self._named(self.tag, self.digest), self.canonical))
        )

    @functools.cached_property
    def wide_forms(self) -> tuple[str, ...]:
        """Return also the names that this one only narrows: its tag, without the digest."""
        return tuple(
            dict.fromkeys(
                (*self.forms, self._named(self.tag, ""), self._named("", self.digest))
                if self.tag and self.digest
                else self.forms
            )
        )

    def _named(self, tag: str, digest: str) -> str:
        name = f"{self.registry}/{self.repository}"
        return name + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


@functools.lru_cache(maxsize=4096)
def parse(written: str, field: str = "image") -> Image:
    """Take an image reference apart.

    :raises InvalidValueError: when no runtime could pull it
    """
    rest, at, digest = written.partition("@")
    if len(written) > _LONGEST or (at and not _DIGEST.fullmatch(digest)):
        raise _invalid(written, field)
    head, slash, tail = rest.partition("/")
    if slash and _is_host(head):
        qualified, path = True, tail
        if not _HOST.fullmatch(head):
            raise _invalid(written, field)
    else:
        qualified, head, path = False, DOCKER_HUB, rest
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _invalid(written, field)
    if not all(_SEGMENT.fullmatch(segment) for segment in path.split("/")):
        raise _invalid(written, field)
    registry = head.lower()
    if registry in _HUB_ALIASES:
        registry = DOCKER_HUB
        path = path if "/" in path else f"library/{path}"
    return Image(
        written=written,
        registry=registry,
        repository=path,
        tag=tag,
        digest=digest.lower() if at else "",
        qualified=qualified,
    )


def _is_host(segment: str) -> bool:
    return (
        any(letter in segment for letter in ".:[")
        or segment == "localhost"
        or segment != segment.lower()
    )


def _invalid(written: str, field: str) -> errors.InvalidValueError:
    return errors.InvalidValueError(
        field,
        written,
        "must be an image reference such as registry.example.com/team/app:1.2 or "
        "registry.example.com/team/app@sha256:<64 hex digits>",
    )
