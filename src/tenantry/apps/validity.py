"""Until when certificates are valid, for `doctor`: those in Secrets, and that of our own identity."""

from __future__ import annotations

import base64
import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography import x509

from tenantry.api import resources
from tenantry.apps import certificates, doctor
from tenantry.kube import client as clients
from tenantry.kube import config as configs
from tenantry.kube import errors, reads

#: Those that are ours, whatever their type, and which everybody looks at first.
OURS = (certificates.SECRET, certificates.CAPSULE_SECRET)
_KEYS = ("ca.crt", "tls.crt")

Object = dict[str, Any]


def of(name: str, pem: bytes, owner: doctor.Owner) -> Iterator[doctor.Certificate]:
    """Read the first certificate, which is the one in use; what cannot be read is one, too."""
    if not pem.strip():
        return
    try:
        first = x509.load_pem_x509_certificates(pem)[0]
    except ValueError as error:
        yield doctor.Certificate(name=name, begins=0.0, ends=0.0, owner=owner, broken=str(error))
        return
    yield doctor.Certificate(
        name=name,
        begins=first.not_valid_before_utc.timestamp(),
        ends=first.not_valid_after_utc.timestamp(),
        owner=owner,
    )


def of_secrets(secrets: Mapping[str, Mapping[str, bytes]]) -> Iterator[doctor.Certificate]:
    """Read all that are kept in Secrets, by name."""
    for name, data in sorted(secrets.items()):
        owner = doctor.Owner.PLATFORM if name in OURS else doctor.Owner.OTHERS
        for key in _KEYS:
            yield from of(f"{name}/{key}", data.get(key, b""), owner)


def of_identity(config: configs.Config) -> Iterator[doctor.Certificate]:
    """Read the client certificate that this command itself came with."""
    pem = config.cert_data
    if config.cert_file:
        try:
            pem = pathlib.Path(config.cert_file).read_bytes()
        except OSError:
            return  # then the first request has failed, and said so
    yield from of(config.cert_file or "client-certificate", pem, doctor.Owner.YOU)


async def secrets(
    client: clients.Client, namespace: str, timeout: float
) -> dict[str, dict[str, bytes]]:
    """Read every Secret of the namespace that holds a serving certificate."""
    found = []
    for name in OURS:
        with contextlib.suppress(errors.NotFound):
            found.append(await client.get(resources.SECRETS, name, namespace, timeout=timeout))
    listed = await client.list(
        resources.SECRETS, namespace, field_selector="type=kubernetes.io/tls", timeout=timeout
    )
    found += [reads.to_dict(bytes(item)) for item in listed.items]
    return {each["metadata"]["name"]: _data(each) for each in found}


def _data(secret: Object) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
