"""Paths and URLs."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import registry

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_PARTS = ("fragment", "host", "hostname", "opaque", "path", "query", "scheme", "userinfo")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PATH_SAFE = "$&+,/:;=@~"


@registry.function("clean osClean", "string")
def clean(counted: budget.Budget, path: str) -> str:
    counted.make(len(path))
    rooted = path.startswith("/")
    kept: list[str] = []
    for part in path.split("/"):
        if part in {"", "."}:
            continue
        if part != "..":
            kept.append(part)
        elif kept and kept[-1] != "..":
            kept.pop()
        elif not rooted:
            kept.append(part)
    return ("/" if rooted else "") + "/".join(kept) or "."


@registry.function("base osBase", "string")
def _base(counted: budget.Budget, path: str) -> str:
    counted.make(len(path))
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


@registry.function("dir osDir", "string")
def _dir(counted: budget.Budget, path: str) -> str:
    folder, slash, _ = path.rpartition("/")
    return clean(counted, folder + slash)


@registry.function("ext osExt", "string")
def _ext(counted: budget.Budget, path: str) -> str:
    counted.make(len(path))
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else ""


@registry.function("isAbs osIsAbs", "string")
def _is_abs(_: budget.Budget, path: str) -> bool:
    return path.startswith("/")


@registry.function("urlParse", "string")
def _url_parse(counted: budget.Budget, text: str) -> dict[str, Any]:
    counted.make(2 * len(text))
    if _CONTROL.search(text):
        raise errors.Failure("a URL has no control characters")
    found = dict.fromkeys(_PARTS, "")
    rest, mark, fragment = text.partition("#")
    found["fragment"] = _unquoted(fragment) if mark else ""
    scheme = _SCHEME.fullmatch(rest)
    if scheme:
        found["scheme"], rest = scheme[1].lower(), scheme[2]
    elif rest.startswith(":"):
        raise errors.Failure("the scheme of the URL is missing")
    rest, _, found["query"] = rest.partition("?")
    if scheme and not rest.startswith("/"):
        found["opaque"] = rest
        return found
    if not scheme and ":" in rest.partition("/")[0]:
        raise errors.Failure("the first part of a path must not hold a colon")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        found["userinfo"] = _user(user) if at else ""
        found["host"] = _host(host)
        found["hostname"] = _hostname(found["host"])
    found["path"] = _unquoted(rest)
    return found


def _user(text: str) -> str:
    if _USER.fullmatch(text) is None:
        raise errors.Failure("invalid character in the user of the URL")
    name, colon, password = text.partition(":")
    safe = "$&+,;=~"
    encoded = urllib.parse.quote(_unquoted(name), safe=safe)
    return encoded + colon + urllib.parse.quote(_unquoted(password), safe=safe)


def _host(text: str) -> str:
    if text.startswith("["):
        end = text.find("]")
        if end < 0:
            raise errors.Failure("] is missing in the host of the URL")
        port = text[end + 1 :]
    else:
        port = text[text.rfind(":") :] if ":" in text else ""
        if text.count(":") > 1 and "[" not in text:
            port = text[text.find(":") :]
    if port and re.fullmatch(r":[0-9]*", port) is None:
        raise errors.Failure(f"not a port: {port!r}")
    if re.search(r"[\s\\^`{|}]", text):
        raise errors.Failure("invalid character in the host of the URL")
    return _unquoted(text)


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1 : host.find("]")]
    return host.rpartition(":")[0] if ":" in host else host


def _unquoted(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise errors.Failure("invalid escape in the URL")
    return values.from_utf8(urllib.parse.unquote_to_bytes(values.utf8(text)))


@registry.function("urlJoin", "map")
def _url_join(counted: budget.Budget, parts: dict[str, Any]) -> str:
    for name, part in parts.items():
        if name in _PARTS and not isinstance(part, str):
            raise errors.Failure(f"{name} must be a text")
    counted.make(3 * sum(len(parts.get(name, "")) for name in _PARTS))
    scheme, opaque = parts.get("scheme", ""), parts.get("opaque", "")
    host, path, user = parts.get("host", ""), parts.get("path", ""), parts.get("userinfo", "")
    text = f"{scheme}:" if scheme else ""
    if opaque:
        text += opaque
    else:
        if scheme or host or user:
            if host or path or user:
                text += "//"
            if user:
                text += _user(user) + "@"
            text += host
        quoted = urllib.parse.quote(values.utf8(path), safe=_PATH_SAFE)
        if quoted and not quoted.startswith("/") and host:
            text += "/"
        text += quoted
    if parts.get("query"):
        text += f"?{parts['query']}"
    fragment = parts.get("fragment", "")
    if fragment:
        text += "#" + urllib.parse.quote(values.utf8(fragment), safe=_PATH_SAFE + "?!()*")
    return text
