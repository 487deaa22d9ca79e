"""Whose request it is, and how that is told to the API server. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from urllib import parse

from cryptography import x509
from cryptography.x509.oid import NameOID

from tenantry.core import errors as core_errors
from tenantry.core import regex
from tenantry.directory import identity as directory
from tenantry.gateway import errors
from tenantry.httpproxy import heads

AUTHENTICATED = "system:authenticated"
_USER, _GROUP, _UID = b"impersonate-user", b"impersonate-group", b"impersonate-uid"
_EXTRA = b"impersonate-extra-"
#: Every header by which a request could claim to be somebody, for one way or another of trust.
_CLAIMS = frozenset((b"authorization", b"x-forwarded-client-cert"))


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API server knows them."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def requester(self) -> directory.Requester:
        return directory.Requester(self.user, frozenset(self.groups))

    @property
    def subjects(self) -> list[tuple[str, str]]:
        """Return (kind, name) of everything this identity can be named as in a specification."""
        kind = "ServiceAccount" if directory.split_service_account(self.user) else "User"
        return [(kind, self.user), *(("Group", group) for group in self.groups)]

    def headers(self) -> heads.Headers:
        """Return the headers of impersonation."""
        found: heads.Headers = [(_USER, _text(self.user))]
        # Every authenticated request is in that group; it may not be asked for twice.
        found += [(_GROUP, _text(group)) for group in self.groups if group != AUTHENTICATED]
        if self.uid:
            found.append((_UID, _text(self.uid)))
        for key, values in self.extra:
            name = _EXTRA + parse.quote(key, safe="").lower().encode()
            found += [(name, _text(value)) for value in values]
        return found


def of(user: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, list[str]]) -> Identity:
    """Return an identity from the parts of a review."""
    return Identity(user, groups, uid, tuple((k, tuple(v)) for k, v in sorted(extra.items())))


def from_certificate(der: bytes, now: float) -> tuple[Identity, float]:
    """Read common name and organisations of a certificate that was verified, and when it ends.

    :raises Unauthenticated: when it names nobody, or has expired since the handshake
    """
    try:
        found = x509.load_der_x509_certificate(der)
        ends = found.not_valid_after_utc.timestamp()
        if not found.not_valid_before_utc.timestamp() <= now <= ends:
            raise errors.Unauthenticated("client certificate is not valid now")
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        groups = found.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except ValueError:
        raise errors.Unauthenticated("client certificate cannot be read") from None
    if len(names) != 1 or not names[0].value:
        raise errors.Unauthenticated("client certificate has no common name")
    listed = dict.fromkeys(str(group.value) for group in groups)
    return Identity(str(names[0].value), (*listed, AUTHENTICATED)), ends


@dataclasses.dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom a caller asks to be taken for."""

    user: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, tuple[str, ...]], ...]

    def heard(self, headers: heads.Headers) -> heads.Headers:
        """Return the headers without groups that are not among these."""
        if len(self.groups) == sum(name == _GROUP for name, _ in headers):
            return headers
        return [
            (name, value)
            for name, value in headers
            if name != _GROUP or value.decode("utf-8", "replace") in self.groups
        ]

    def identity(self) -> Identity:
        """Return the effective identity, once it is allowed."""
        groups = self.groups
        account = directory.split_service_account(self.user)
        if not groups and account:
            groups = (directory.SERVICE_ACCOUNTS, f"{directory.SERVICE_ACCOUNTS}:{account[0]}")
        groups = tuple(dict.fromkeys((*groups, AUTHENTICATED)))
        return Identity(self.user, groups, self.uid, self.extra)


@dataclasses.dataclass(frozen=True, slots=True)
class Groups:
    """Which of the groups that callers ask to be taken for are heard of at all."""

    only: str = ""
    """an expression that they must match; empty = any"""
    never: tuple[str, ...] = ()
    """expressions of which they must match none"""

    def heard(self, group: str) -> bool:
        """Tell it of one group. What is too long for an expression is not."""
        try:
            if self.only and not regex.found(self.only, group):
                return False
            return not any(
                regex.found(expression, group, unreadable=True) for expression in self.never
            )
        except core_errors.InvalidValueError:
            return False


ANY = Groups()


def impersonation(headers: heads.Headers, heard: Groups = ANY) -> Impersonation | None:
    """Read the headers of `kubectl --as`.

    :param heard: which groups are; the others are as if nobody had named them
    :raises Malformed: when there is anything to impersonate but no user
    """
    user, groups, uid, extra = "", [], "", dict[str, list[str]]()
    for name, value in headers:
        if not name.startswith(b"impersonate-"):
            continue
        text = value.decode("utf-8", "replace")
        if name == _USER:
            user = text
        elif name == _GROUP:
            groups.append(text)
        elif name == _UID:
            uid = text
        elif name.startswith(_EXTRA):
            extra.setdefault(parse.unquote(name[len(_EXTRA) :].decode()), []).append(text)
    if user:
        if heard is not ANY:
            groups = list(filter(heard.heard, groups))
        return Impersonation(
            user, tuple(groups), uid, tuple((k, tuple(v)) for k, v in sorted(extra.items()))
        )
    if groups or uid or extra:
        raise errors.Malformed("impersonation of groups, uid or extra needs a user")
    return None


def unclaimed(headers: heads.Headers) -> heads.Headers:
    """Return the headers without any by which somebody could claim to be somebody."""
    return [
        header
        for header in headers
        if header[0] not in _CLAIMS and not header[0].startswith((b"impersonate-", b"x-remote-"))
    ]


def _text(value: str) -> bytes:
    found = value.encode()
    if b"\r" in found or b"\n" in found or b"\0" in found:
        raise errors.Unauthenticated("a name with line breaks is nobody's")
    return found
