"""What may be wrong with an installation, and what to do about it; pure.

`facts` gathers; here each check looks at the facts and returns findings. A fact that could not be
gathered is a finding too, never a reason to be silent.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from tenantry.core import clock

Severity = Literal["ok", "warning", "error"]

LOWEST = (1, 33)
#: From here on resourceVersions may be compared; before, some reads cost a quorum read.
COMFORTABLE = (1, 35)
#: Seconds of difference between two clocks that certificates and tokens forgive.
SKEW = 60.0
#: Seconds before its end, and part of its life, at which a certificate should have been renewed.
RENEWAL, LATE = 14 * 86400.0, 0.2
#: Seconds without a word from the API server; bookmarks come every minute.
LAG = 90.0

EXIT_CODES: Mapping[Severity, int] = {"ok": 0, "warning": 2, "error": 3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    severity: Severity
    check: str
    #: What it is about: a name.
    subject: str
    message: str
    #: What to do; "" when all is well.
    remedy: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """One CRD as the cluster has it."""

    versions: frozenset[str]
    established: bool
    message: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hook:
    """One webhook that leads to us."""

    configuration: str
    name: str
    #: Whether its caBundle contains what our certificate is signed by.
    trusted: bool
    fails_closed: bool


class Owner(enum.Enum):
    """Who renews a certificate."""

    PLATFORM = enum.auto()
    """The webhook role."""
    OTHERS = enum.auto()
    """Whoever made the Secret."""
    YOU = enum.auto()
    """Who runs this command: it is that of their credentials."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """The validity of one certificate, in wall-clock seconds."""

    name: str
    begins: float
    ends: float
    owner: Owner = Owner.PLATFORM
    #: Why it cannot be read.
    broken: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lease:
    """One election."""

    name: str
    holder: str
    #: When it was renewed by the holder's clock, and for how long that holds.
    renewed: float
    duration: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Role:
    """What a process says of itself."""

    address: str
    #: Lines of /readyz that are not ok; None when it did not answer.
    failing: tuple[str, ...] | None
    #: Seconds since each informer heard from the API server.
    heard: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: What it says besides, such as whose lease it waits for.
    noted: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """All that was found out. None means: could not be, see `problems`."""

    now: float
    namespace: str
    #: Check -> why its facts could not be gathered.
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)
    version: tuple[int, int] | None = None
    #: Name -> versions that this release serves, and what the cluster has.
    wanted_kinds: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    kinds: Mapping[str, Kind] | None = None
    certificates: Sequence[Certificate] | None = None
    hooks: Sequence[Hook] | None = None
    #: What the API server says about calling us, "" when it could; None when not asked.
    called: str | None = None
    #: Permissions that are missing, in words.
    missing: Sequence[str] | None = None
    leases: Sequence[Lease] | None = None
    #: The server's clock minus ours in seconds, and how exactly that is known.
    skew: tuple[float, float] | None = None
    roles: Sequence[Role] = ()


def examine(facts: Facts) -> list[Finding]:
    """Make all checks, in an order in which the first error may explain those after it."""
    return [finding for check in CHECKS for finding in check(facts)]


def worst(findings: Sequence[Finding]) -> Severity:
    """Give the severity that decides the exit code."""
    return max((found.severity for found in findings), key=list(EXIT_CODES).index, default="ok")


def unknown(facts: Facts, check: str) -> Iterator[Finding]:
    """Say that something could not be looked at."""
    if check in facts.problems:
        yield Finding(
            severity="error",
            check=check,
            subject="-",
            message=f"could not be examined: {facts.problems[check]}",
            remedy="use credentials that may read it, or see the errors above",
        )


def _server(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "server")
    if facts.version is None:
        return
    shown = ".".join(map(str, facts.version))
    about = {"check": "server", "subject": f"kubernetes {shown}"}
    if facts.version < LOWEST:
        yield Finding(
            severity="error",
            message=f"older than {LOWEST[0]}.{LOWEST[1]}, the lowest supported",
            remedy="upgrade the cluster",
            **about,
        )
    elif facts.version < COMFORTABLE:
        yield Finding(
            severity="warning",
            message="does not promise ordered resourceVersions; some reads cost more",
            remedy=f"upgrade to {COMFORTABLE[0]}.{COMFORTABLE[1]} when convenient",
            **about,
        )
    else:
        yield Finding(severity="ok", message="supported", **about)


def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.skew is None:
        return
    skew, accuracy = facts.skew
    surely = abs(skew) - accuracy
    off = surely > SKEW
    yield Finding(
        severity="error" if off else "ok",
        check="clock",
        subject="this machine",
        message=f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the API server"
        if off
        else "agrees with the API server",
        remedy="synchronise the clocks (NTP): certificates and tokens depend on them"
        if off
        else "",
    )


def _kinds(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "kinds")
    if facts.kinds is None:
        return
    install = "tenantry crds install"
    good = 0
    for name, versions in sorted(facts.wanted_kinds.items()):
        found = facts.kinds.get(name)
        message, remedy = "", install
        if found is None:
            message = "does not exist"
        elif lacking := versions - found.versions:
            message = f"does not serve {', '.join(sorted(lacking))}"
        elif not found.established:
            message = f"is not established: {found.message}"
            remedy = f"kubectl describe crd {name}"
        if message:
            yield Finding(
                severity="error", check="kinds", subject=name, message=message, remedy=remedy
            )
        else:
            good += 1
    if good:
        yield Finding(severity="ok", check="kinds", subject=f"{good} kinds", message="are served")


def _certificates(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "certificates")
    for one in facts.certificates or ():
        severity: Severity = "ok"
        if one.broken:
            severity, message = "error", f"is no certificate: {one.broken}"
        elif facts.now >= one.ends:
            severity, message = "error", f"expired at {clock.rfc3339(one.ends)}"
        elif facts.now < one.begins:
            severity, message = "error", f"is valid only from {clock.rfc3339(one.begins)}"
        elif one.ends - facts.now < min(RENEWAL, LATE * (one.ends - one.begins)):
            severity, message = "warning", f"ends at {clock.rfc3339(one.ends)} and was not renewed"
        else:
            message = f"is valid until {clock.rfc3339(one.ends)}"
        yield Finding(
            severity=severity,
            check="certificates",
            subject=one.name,
            message=message,
            remedy="" if severity == "ok" else _renewal(one, facts.namespace),
        )


def _renewal(one: Certificate, namespace: str) -> str:
    secret = one.name.partition("/")[0]
    if one.owner is Owner.YOU:
        return "get a new kubeconfig: soon or now this certificate opens nothing any more"
    if one.owner is Owner.OTHERS:
        return (
            "have it issued anew by what made the Secret (cert-manager, a script):"
            f" kubectl -n {namespace} describe secret {secret}"
        )
    return (
        "restart the webhook role; if that does not help:"
        f" kubectl -n {namespace} delete secret {secret}"
    )


def _hooks(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "webhooks")
    if facts.hooks is None:
        return
    if not facts.hooks:
        yield Finding(
            severity="error",
            check="webhooks",
            subject="-",
            message="no webhook leads to Tenantry: tenants are not held to their rules",
            remedy="start the webhook role: tenantry webhook",
        )
        return
    for hook in facts.hooks:
        if not hook.trusted:
            yield Finding(
                severity="error" if hook.fails_closed else "warning",
                check="webhooks",
                subject=f"{hook.configuration}/{hook.name}",
                message="its caBundle does not trust the webhook's certificate",
                remedy="restart the webhook role, which writes it; if a GitOps tool puts the old"
                " one back, let it ignore the field caBundle",
            )
    if facts.called:
        yield Finding(
            severity="error",
            check="webhooks",
            subject="call",
            message=f"the API server cannot call them: {facts.called}",
            remedy="see that the webhook role runs, that its Service has endpoints, and that the"
            " API server may connect to it (firewalls, network policies)",
        )
    elif facts.called is not None:
        count = len(facts.hooks)
        yield Finding(
            severity="ok", check="webhooks", subject=f"{count} webhooks", message="answer"
        )


def _permissions(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "permissions")
    if facts.missing is None:
        return
    for one in facts.missing:
        yield Finding(
            severity="error",
            check="permissions",
            subject=one.partition(" ")[0],
            message=f"must be allowed to {one.partition(' ')[2]}",
            remedy="tenantry crds install --rbac",
        )
    if not facts.missing:
        yield Finding(
            severity="ok", check="permissions", subject="service accounts", message="may do it all"
        )


def _leases(facts: Facts) -> Iterator[Finding]:
    yield from unknown(facts, "leases")
    if facts.leases is None:
        return
    if not facts.leases:
        yield Finding(
            severity="warning",
            check="leases",
            subject="-",
            message="there is none: no controller has run yet, or without election",
            remedy="start the controller role: tenantry controller",
        )
    # The holder stamps with its own clock; ours is put right by what the server says, for certain.
    server_now = facts.now + (facts.skew[0] - facts.skew[1] if facts.skew else 0.0)
    for lease in facts.leases:
        silence = server_now - lease.renewed
        if not lease.holder:
            severity, message = "error", "is held by nobody"
        elif silence > lease.duration + SKEW:
            severity, message = "error", f"{lease.holder} did not renew it for {silence:.0f} s"
        else:
            severity, message = "ok", f"held by {lease.holder}"
        yield Finding(
            severity="ok" if severity == "ok" else "error",
            check="leases",
            subject=lease.name,
            message=message,
            remedy=""
            if severity == "ok"
            else "see the logs of the controller role: it does not run, or cannot reach the API"
            " server",
        )


def _roles(facts: Facts) -> Iterator[Finding]:
    for role in facts.roles:
        about = {"check": "roles", "subject": role.address}
        if role.failing is None:
            yield Finding(
                severity="error",
                message="does not answer",
                remedy="see whether the process runs, and its option --probes",
                **about,
            )
            continue
        for line in role.failing:
            yield Finding(
                severity="error",
                message=f"is not ready: {line}",
                remedy="see its log; what it waits for is named",
                **about,
            )
        for resource, seconds in sorted(role.heard.items()):
            if seconds > LAG:
                yield Finding(
                    severity="error",
                    message=f"its cache of {resource} has heard nothing for {seconds:.0f} s",
                    remedy="see its log for informer_interrupted; permissions to list and watch,"
                    " and the way to the API server, are the usual causes",
                    **about,
                )
        if not role.failing and all(each <= LAG for each in role.heard.values()):
            also = "".join(f"; {each}" for each in role.noted)
            yield Finding(severity="ok", message=f"is ready, its caches are current{also}", **about)


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _server,
    _clock,
    _kinds,
    _permissions,
    _certificates,
    _hooks,
    _leases,
    _roles,
)
