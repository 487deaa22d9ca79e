"""The webhook's serving certificate: kept in a Secret, shared by all replicas."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tenantry.api import resources
from tenantry.api.capsule import configuration
from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.pki import authority, bundle
from tenantry.pki import errors as pki_errors
from tenantry.runtime import backoff, metrics, permissions

logger = logging.getLogger(__name__)

#: Where nothing else is configured.
SECRET = "tenantry-webhook-tls"  # noqa: S105 - the name of an object
#: What a configuration names unless it says otherwise; Capsule keeps its own certificate there.
CAPSULE_SECRET = "capsule-tls"  # noqa: S105 - the name of an object
AUTHORITY = "tenantry-webhook"

#: Says that a Secret is ours to write.
OURS = {"app.kubernetes.io/managed-by": "tenantry"}

#: Seconds between two looks at the Secret.
POLL = 60.0

#: How often a lost race is run again.
ATTEMPTS = 8

#: Seconds before its end from which a certificate that could not be renewed keeps us unready.
NEAR = 24 * 3600.0


NEEDS = (
    # A name of one's own is added to this role by whoever configures it.
    permissions.Need(
        resources.SECRETS, ("get", "update"), own=True, names=(CAPSULE_SECRET, SECRET)
    ),
    permissions.Need(resources.SECRETS, ("create",), own=True),
)


class ForeignSecretError(core_errors.TenantryError):
    """Raised when the Secret to keep the certificate in is somebody else's."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(
            f"secret {namespace}/{name} was not made by Tenantry, so its certificate is left "
            f"alone; name another in spec.overrides.TLSSecretName of the CapsuleConfiguration "
            f"(such as {SECRET}), or, when nobody serves with it any more, delete it"
        )


class ContendedError(core_errors.TenantryError):
    """Raised when others were faster each time."""


def secret_name(spec: configuration.CapsuleConfigurationSpec) -> str:
    """Return the Secret that a configuration gives us; pure.

    The override counts only where the platform is asked to keep that Secret.
    """
    return (spec.enable_tls_reconciler and spec.overrides.tls_secret_name) or SECRET


class Serving(Protocol):
    """What the webhook serves with."""

    @property
    def trust(self) -> bytes:
        """Return the PEM certificates by which our server is recognised; empty = not known."""

    def pair(self) -> tuple[bytes, bytes]:
        """Return the certificate chain and private key in use, PEM."""

    def check(self) -> str:
        """Say what keeps it from being used."""

    async def renew(self) -> bool:
        """Look again; tell whether anything is new."""

    async def refresh(self) -> bool:
        """Look again and raise what goes wrong; tell whether anything is new."""


class ServingCertificate:
    """Loads, makes and renews the bundle; the webhook server reads `pair`."""

    def __init__(
        self,
        client: kube.Client,
        namespace: str,
        names: Sequence[str] | Callable[[], Sequence[str]],
        *,
        secret: Callable[[], str] = lambda: SECRET,
        now: clock.Clock = clock.wall,
        registry: metrics.Registry | None = None,
    ) -> None:
        """Make it known; nothing is read before `refresh`.

        :param names: what the certificate is for; a function where that may change
        :param secret: gives the Secret's name, which may change
        """
        self._client = client
        self._namespace = namespace
        self._names = names if callable(names) else (lambda: names)
        self._secret = secret
        self._now = now
        self._bundle: bundle.Bundle | None = None
        self._problem = ""
        self._failures = (registry or metrics.Registry()).counter(
            "webhook_certificate_failures_total", "Looks at the serving certificate that failed."
        )
        self._failures.inc(by=0)

    @property
    def trust(self) -> bytes:
        """Return the PEM certificates by which our server is recognised."""
        return self._bundle.trust if self._bundle is not None else b""

    def pair(self) -> tuple[bytes, bytes]:
        """Return the certificate chain and private key in use, PEM."""
        if self._bundle is None:
            raise FileNotFoundError(f"secret {self._secret()} was not read yet")
        return self._bundle.leaf.cert, self._bundle.leaf.key

    def check(self) -> str:
        """Say what is wrong once a certificate that cannot be renewed nears its end."""
        if not self._problem or self._bundle is None:
            return ""
        ends = authority.load_certificate(self._bundle.leaf.cert).not_valid_after_utc.timestamp()
        if ends - self._now() > NEAR:
            return ""
        return f"the certificate ends at {clock.rfc3339(ends)}: {self._problem}"

    async def renew(self) -> bool:
        """Refresh; a failure is logged and counted, since the bundle in use is good for weeks."""
        try:
            changed = await self.refresh()
        except core_errors.TenantryError as problem:
            self._problem = str(problem)
            self._failures.inc()
            logger.warning("certificate_not_renewed", extra={"why": self._problem})
            return False
        self._problem = ""
        return changed

    async def refresh(self) -> bool:
        """Read the Secret and renew what is due; tell whether anything is new.

        A Secret of ours that cannot be understood is made anew, which is also how one is repaired
        by hand: by emptying it. In one of another name, that is not there yet, the bundle in use
        goes on, so that no replica meets a stranger.
        """
        name = self._secret()
        wait = backoff.Backoff(first=0.05, longest=2.0, healthy=0.0, jitter=1.0)
        for _ in range(ATTEMPTS):
            found = await self._read(name)
            stored = self._bundle if found is None else _parse(found)
            if found is not None and not is_ours(found, stored):
                raise ForeignSecretError(self._namespace, name)
            due = bundle.renewed(stored, self._names(), self._now(), name=AUTHORITY)
            unchanged = found is not None and due is stored
            if unchanged or await self._write(name, found, due):
                changed = due != self._bundle
                self._bundle = due
                return changed
            await asyncio.sleep(wait.next())
        raise ContendedError(
            f"secret {self._namespace}/{name} could not be written in {ATTEMPTS} attempts: "
            "it changed, or was deleted, each time after it was read"
        )

    async def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._client.get(resources.SECRETS, name, self._namespace)
        except errors.NotFound:
            return None

    async def _write(self, name: str, found: dict[str, Any] | None, due: bundle.Bundle) -> bool:
        """Store a bundle; False when another replica was faster and its bundle counts."""
        data = {key: base64.b64encode(value).decode() for key, value in due.to_secret().items()}
        try:
            if found is None:
                body = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/tls",
                    "metadata": {"name": name, "namespace": self._namespace, "labels": OURS},
                    "data": data,
                }
                await self._client.create(resources.SECRETS, body)
            else:
                labels = {**(found["metadata"].get("labels") or {}), **OURS}
                metadata = {**found["metadata"], "labels": labels}
                body = {**found, "metadata": metadata, "data": data}
                await self._client.replace(resources.SECRETS, body)
        except (errors.Conflict, errors.OutcomeUnknown):
            return False
        except errors.NotFound:
            if found is None:
                # A namespace that does not exist will not come by waiting.
                raise
            return False
        return True


def is_ours(found: dict[str, Any], stored: bundle.Bundle | None) -> bool:
    """Tell whether a Secret may be written: by its label, or by who signed what is in it; pure."""
    labels = (found.get("metadata") or {}).get("labels") or {}
    if OURS.items() <= labels.items():
        return True
    if stored is None:
        return False
    signer = authority.load_certificate(stored.authority.cert)
    return signer.subject.rfc4514_string() == f"CN={AUTHORITY}"


def _parse(found: dict[str, Any]) -> bundle.Bundle | None:
    data = found.get("data")
    if not isinstance(data, dict):
        return None
    try:
        return bundle.Bundle.from_secret(
            {key: base64.b64decode(value) for key, value in data.items()}
        )
    except (pki_errors.BrokenCertificateError, ValueError):
        return None
