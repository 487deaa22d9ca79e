"""Find out whose request it is, asking the API server as seldom as that is safe."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import ipaddress
import os
from collections.abc import Sequence
from typing import Protocol

import msgspec
from cryptography import x509

from tenantry.api import admission, resources
from tenantry.core import clock
from tenantry.directory import identity as directory
from tenantry.gateway import cache, errors, identity, tokens, upstreams, xfcc
from tenantry.httpproxy import exchange, fetch
from tenantry.kube import access
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors
from tenantry.runtime import permissions

#: Seconds for which an answer holds: the API server's own for tokens, and less for a refusal.
ACCEPTED, REFUSED = 10.0, 2.0
_DEADLINE = 10.0
#: Most groups of one impersonation, from how many on one question is asked for all of them first,
#: and how many questions are asked at a time.
_GROUPS_LIMIT, _SEVERAL, _AT_ONCE = 1000, 4, 16

CERTIFICATE, BEARER, FORWARDED = "TLSCertificate", "BearerToken", "XForwardedClientCert"
KINDS = (CERTIFICATE, BEARER, FORWARDED)

_USERS = resources.Resource("", "v1", "users", "User", namespaced=False)
_GROUPS = resources.Resource("", "v1", "groups", "Group", namespaced=False)
_UIDS = resources.Resource("authentication.k8s.io", "v1", "uids", "UID", namespaced=False)
_EXTRAS = resources.Resource("authentication.k8s.io", "v1", "userextras", "X", namespaced=False)
_ANYTHING = resources.Resource("authentication.k8s.io", "v1", "*", "X", namespaced=False)

NEEDS = (
    permissions.Need(resources.TOKEN_REVIEWS, ("create",)),
    permissions.Need(resources.SUBJECT_ACCESS_REVIEWS, ("create",)),
    permissions.Need(_USERS, ("impersonate",)),
    permissions.Need(_GROUPS, ("impersonate",)),
    permissions.Need(resources.SERVICE_ACCOUNTS, ("impersonate",)),
    # uids, and userextras of whatever key: RBAC knows no "userextras/*".
    permissions.Need(_ANYTHING, ("impersonate",)),
)

Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """What a request brings to prove whose it is."""

    token: str
    """empty when a certificate speaks"""
    certified: identity.Identity | None
    impersonation: identity.Impersonation | None
    key: bytes
    """stands for all of it, as a key of caches; does not give the token away"""
    ends: float = float("inf")
    """when the certificate does"""

    @property
    def expires(self) -> float:
        """When this proves nothing any more, as far as can be read from it."""
        return tokens.expires(self.token) if self.token else self.ends

    @property
    def immediate(self) -> identity.Identity | None:
        """The identity that needs no question."""
        return self.certified if self.impersonation is None else None


class _User(msgspec.Struct, rename="camel"):
    user_info: admission.UserInfo


class _SelfReview(msgspec.Struct):
    status: _User


class Verifier(Protocol):
    """Tells whose token it is, without asking anybody."""

    def identity(self, token: str, now: float) -> identity.Identity | None:
        """Return that, or None when the API server has to say it.

        :raises Unauthenticated: when it is certainly not valid
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Whom to believe."""

    kinds: tuple[str, ...] = (CERTIFICATE, BEARER)
    """in the order in which they are tried"""
    xfcc_header: str = "X-Forwarded-Client-Cert"
    trusted: Networks = ()
    """peers whose word about a client certificate is taken"""
    authorities: tuple[x509.Certificate, ...] = ()
    """one of which must have issued it; none = whoever"""
    verifiers: tuple[Verifier, ...] = ()
    """those who tell some tokens without asking"""
    groups: identity.Groups = identity.ANY
    """of which callers may ask to be"""


class Authenticator:
    """Answers from memory where it can."""

    def __init__(
        self,
        client: kube.Client,
        servers: upstreams.Upstreams,
        options: Options,
        *,
        wall: clock.Clock = clock.wall,
        monotonic: clock.Clock = clock.monotonic,
    ) -> None:
        self._client = client
        self._servers = servers
        self._options = options
        self._header = options.xfcc_header.lower().encode()
        self._wall = wall
        self._monotonic = monotonic
        self._secret = os.urandom(32)
        # Apart, so that a flood of bad tokens cannot push out the good ones.
        self._accepted: cache.Cache[bytes, identity.Identity] = cache.Cache(10_000)
        self._refused: cache.Cache[bytes, errors.Refused] = cache.Cache(1_000)
        self._certificates: cache.Cache[bytes, tuple[identity.Identity, float]] = cache.Cache(
            10_000
        )
        self._asking: dict[bytes, asyncio.Task[identity.Identity]] = {}
        #: Questions to the API server, for metrics and tests.
        self.questions = 0

    def caller(self, found: exchange.Exchange) -> Caller:
        """Read what a request brings.

        :raises Refused: when that is nothing, or nothing that can be believed
        """
        asked = identity.impersonation(found.head.headers, self._options.groups)
        for kind in self._options.kinds:
            if kind == BEARER:
                token = tokens.of(found.head)
                if token:
                    return Caller(token, None, asked, self._key(b"t", token.encode(), asked))
                continue
            der = self._certificate(found, kind)
            if der:
                who, ends = self._certified(der)
                return Caller("", who, asked, self._key(b"c", der, asked), ends)
        raise errors.Unauthenticated

    def known(self, caller: Caller, *, margin: float = 0.0) -> identity.Identity | None:
        """Return the identity if nobody has to be asked.

        :param margin: seconds for which the answer must still hold
        :raises Refused: when it is known to be refused
        """
        if caller.immediate is not None:
            return caller.immediate
        now = self._monotonic()
        found = self._accepted.get(caller.key, now + margin)
        if found is None:
            refused = self._refused.get(caller.key, now)
            if refused is not None:
                raise refused
            if caller.impersonation is None:
                found = self._verified(caller)
        return found

    def _verified(self, caller: Caller) -> identity.Identity | None:
        for verifier in self._options.verifiers:
            try:
                found = verifier.identity(caller.token, self._wall())
            except errors.Unauthenticated as error:
                self._refused.put(caller.key, error, self._monotonic() + REFUSED)
                raise
            if found is not None:
                self._keep(caller, found)
                return found
        return None

    async def identify(self, caller: Caller, *, margin: float = 0.0) -> identity.Identity:
        """Return the identity, asking the API server once for all who wait for the same.

        :param margin: seconds for which an answer from before must still hold
        :raises Refused: when the caller is not who it claims to be
        """
        found = self.known(caller, margin=margin)
        if found is not None:
            return found
        task = self._asking.get(caller.key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(caller))
            self._asking[caller.key] = task
            task.add_done_callback(functools.partial(self._answered, caller.key))
        # Whoever goes away must not take the answer from the others.
        return await asyncio.shield(task)

    def _answered(self, key: bytes, task: asyncio.Task[identity.Identity]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            # All who waited may be gone; then nobody else looks at how it ended.
            task.exception()

    async def _ask(self, caller: Caller) -> identity.Identity:
        if caller.token and caller.impersonation is None:
            self.questions += 1
            found = self._review(caller.token)
        elif caller.token:
            self.questions += 1
            found = self._self_review(caller)
        else:
            found = self._authorise(caller)
        try:
            who = await found
        except errors.Refused as error:
            if error.code < 500:
                self._refused.put(caller.key, error, self._monotonic() + REFUSED)
            raise
        except kube_errors.KubeError as error:
            raise errors.Refused(
                503, "ServiceUnavailable", f"cannot authenticate: {error}"
            ) from error
        self._keep(caller, who)
        return who

    def _keep(self, caller: Caller, who: identity.Identity) -> None:
        left = tokens.expires(caller.token) - self._wall() if caller.token else ACCEPTED
        self._accepted.put(caller.key, who, self._monotonic() + min(ACCEPTED, left))

    async def _review(self, token: str) -> identity.Identity:
        answer = await access.review_token(self._client, token, timeout=_DEADLINE)
        if answer.user is None or answer.error or not answer.user.username:
            raise errors.Unauthenticated(answer.error)
        return _identity(answer.user)

    async def _self_review(self, caller: Caller) -> identity.Identity:
        """Ask who a caller is that impersonates somebody: the API server authorises that, too."""
        assert caller.impersonation is not None
        asked = caller.impersonation
        headers = identity.Identity(asked.user, asked.groups, asked.uid, asked.extra).headers()
        headers += [
            (b"authorization", f"Bearer {caller.token}".encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json"),
        ]
        body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        path = resources.SELF_SUBJECT_REVIEWS.path().encode()
        async with fetch.Fetch() as asking:
            head = await asking.send(
                self._servers.plain, b"POST", path, headers, body, timeout=_DEADLINE
            )
            answer = await asking.body(1 << 20)
        if head.status == 401:
            raise errors.Unauthenticated
        if head.status != 201:
            error = kube_errors.from_response(head.status, answer)
            raise errors.Refused(head.status, error.reason, error.message)
        return _identity(msgspec.json.decode(answer, type=_SelfReview).status.user_info)

    async def _authorise(self, caller: Caller) -> identity.Identity:
        """Ask for each part of an impersonation whether the certified caller may do it."""
        assert caller.certified is not None
        assert caller.impersonation is not None
        asked = caller.impersonation
        account = directory.split_service_account(asked.user)
        questions = [
            access.Question(
                verb="impersonate",
                resource=resources.SERVICE_ACCOUNTS,
                namespace=account[0],
                name=account[1],
            )
            if account
            else access.Question(verb="impersonate", resource=_USERS, name=asked.user)
        ]
        if len(asked.groups) > _GROUPS_LIMIT:
            raise errors.Forbidden(f"at most {_GROUPS_LIMIT} groups can be impersonated at a time")
        # Whoever may be in any group needs no question about each: people have hundreds.
        anyone = access.Question(verb="impersonate", resource=_GROUPS)
        if len(asked.groups) < _SEVERAL or not await self.may(caller.certified, anyone):
            questions += [
                access.Question(verb="impersonate", resource=_GROUPS, name=group)
                for group in asked.groups
            ]
        if asked.uid:
            questions.append(access.Question(verb="impersonate", resource=_UIDS, name=asked.uid))
        questions += [
            access.Question(verb="impersonate", resource=_EXTRAS, subresource=key, name=value)
            for key, values in asked.extra
            for value in values
        ]
        who = caller.certified
        places = asyncio.Semaphore(_AT_ONCE)

        async def ask(question: access.Question) -> bool:
            async with places:
                return await self.may(who, question)

        answers = await asyncio.gather(*map(ask, questions))
        for question, allowed in zip(questions, answers, strict=True):
            if not allowed:
                assert question.resource is not None
                raise errors.Forbidden(
                    f'{question.resource.plural} "{question.name}" is forbidden: User "{who.user}"'
                    f' cannot impersonate resource "{question.resource.plural}" in API group'
                    f' "{question.resource.group}" at the cluster scope'
                )
        return asked.identity()

    async def may(self, who: identity.Identity, question: access.Question) -> bool:
        """Ask the API server whether somebody may do something."""
        self.questions += 1
        answer = await access.can(
            self._client,
            question,
            user=who.user,
            groups=who.groups,
            uid=who.uid,
            extra=dict(who.extra),
            timeout=_DEADLINE,
        )
        return answer.allowed

    def _certificate(self, found: exchange.Exchange, kind: str) -> bytes:
        if kind == CERTIFICATE:
            return found.peer.certificate
        value = found.head.get(self._header)
        if not value:
            return b""
        if not trusted(found.peer.host, self._options.trusted):
            raise errors.Unauthenticated("forwarded client certificate from an untrusted source")
        if sum(name == self._header for name, _ in found.head.headers) != 1:
            raise errors.Unauthenticated("more than one forwarded client certificate")
        return xfcc.certificate(value.decode("ascii", "replace"), self._options.authorities)

    def _certified(self, der: bytes) -> tuple[identity.Identity, float]:
        now = self._monotonic()
        digest = hashlib.sha256(der).digest()
        found = self._certificates.get(digest, now)
        if found is None:
            wall = self._wall()
            found = identity.from_certificate(der, wall)
            # A connection may be kept for longer than its certificate is good.
            self._certificates.put(digest, found, now + min(ACCEPTED, found[1] - wall))
        return found

    def _key(self, kind: bytes, proof: bytes, asked: identity.Impersonation | None) -> bytes:
        digest = hashlib.blake2b(kind + proof, key=self._secret, digest_size=24)
        if asked is not None:
            digest.update(repr(asked).encode())
        return digest.digest()


def trusted(host: str, networks: Networks) -> bool:
    """Tell whether a peer is in one of the networks; none trusts nobody."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in networks)


def _identity(user: admission.UserInfo) -> identity.Identity:
    return identity.of(user.username, tuple(user.groups), user.uid, user.extra)
