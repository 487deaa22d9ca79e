"""The webhook's serving certificate: kept in a Secret, shared by all replicas."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.pki import bundle
from tenantry.pki import errors as pki_errors
from tenantry.runtime import permissions

SECRET = "capsule-tls"  # noqa: S105 - the name of an object
AUTHORITY = "tenantry-webhook"

#: Seconds between two looks at the Secret.
POLL = 60.0


NEEDS = (
    permissions.Need(resources.SECRETS, ("get", "update"), own=True, names=(SECRET,)),
    permissions.Need(resources.SECRETS, ("create",), own=True),
)


class ServingCertificate:
    """Loads, makes and renews the bundle; the webhook server reads `pair`."""

    def __init__(
        self,
        client: kube.Client,
        namespace: str,
        names: Sequence[str],
        *,
        now: clock.Clock = clock.wall,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._names = list(names)
        self._now = now
        self._bundle: bundle.Bundle | None = None

    @property
    def trust(self) -> bytes:
        """Return the PEM certificates by which our server is recognised."""
        return self._bundle.trust if self._bundle is not None else b""

    def pair(self) -> tuple[bytes, bytes]:
        """Return the certificate chain and private key in use, PEM."""
        if self._bundle is None:
            raise FileNotFoundError(f"secret {SECRET} was not read yet")
        return self._bundle.leaf.cert, self._bundle.leaf.key

    async def refresh(self) -> bool:
        """Read the Secret and renew what is due; tell whether anything is new.

        A Secret that cannot be understood is made anew, which is also how one is repaired by
        hand: by emptying it.
        """
        while True:
            found = await self._read()
            stored = _parse(found)
            due = bundle.renewed(stored, self._names, self._now(), name=AUTHORITY)
            if due is stored or await self._write(found, due):
                changed = due != self._bundle
                self._bundle = due
                return changed

    async def _read(self) -> dict[str, object] | None:
        try:
            return await self._client.get(resources.SECRETS, SECRET, self._namespace)
        except errors.NotFound:
            return None

    async def _write(self, found: dict[str, object] | None, due: bundle.Bundle) -> bool:
        """Store a bundle; False when another replica was faster and its bundle counts."""
        data = {key: base64.b64encode(value).decode() for key, value in due.to_secret().items()}
        try:
            if found is None:
                body = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "type": "kubernetes.io/tls",
                    "metadata": {"name": SECRET, "namespace": self._namespace},
                    "data": data,
                }
                await self._client.create(resources.SECRETS, body)
            else:
                await self._client.replace(resources.SECRETS, {**found, "data": data})
        except (errors.Conflict, errors.NotFound, errors.OutcomeUnknown):
            return False
        return True


def _parse(found: dict[str, object] | None) -> bundle.Bundle | None:
    data = (found or {}).get("data")
    if not isinstance(data, dict):
        return None
    try:
        return bundle.Bundle.from_secret(
            {key: base64.b64decode(value) for key, value in data.items()}
        )
    except (pki_errors.BrokenCertificateError, ValueError):
        return None
