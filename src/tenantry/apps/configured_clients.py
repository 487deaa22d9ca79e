"""Where the webhooks of a CapsuleConfiguration lead, and by what they are trusted there; pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib import parse

from cryptography import x509

from tenantry.api import resources
from tenantry.api.capsule import configuration
from tenantry.apps import hooks
from tenantry.core import errors, names
from tenantry.runtime import registration

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two configurations."""

    field: str
    resource: resources.Resource
    kind: str
    paths: frozenset[str]

    @property
    def suffix(self) -> str:
        return f".{self.field}.projectcapsule.dev"

    def of(
        self, spec: configuration.CapsuleConfigurationSpec
    ) -> configuration.MutatingAdmission | configuration.ValidatingAdmission | None:
        """Return what a configuration says about this side."""
        admission = spec.admission
        return admission.mutating if self.field == "mutating" else admission.validating

    def name(self, spec: configuration.CapsuleConfigurationSpec) -> str:
        """Return the name of the object; the deprecated field counts where the other is empty."""
        said = self.of(spec)
        overrides = spec.overrides
        old = (
            overrides.mutating_webhook_configuration_name
            if self.field == "mutating"
            else overrides.validating_webhook_configuration_name
        )
        return (said.name if said is not None else "") or old


SIDES = (
    Side(
        "mutating",
        resources.MUTATING_WEBHOOKS,
        "MutatingWebhookConfiguration",
        frozenset((hooks.MUTATE, *hooks.UPSTREAM_MUTATING)),
    ),
    Side(
        "validating",
        resources.VALIDATING_WEBHOOKS,
        "ValidatingWebhookConfiguration",
        frozenset((hooks.VALIDATE, *hooks.UPSTREAM_VALIDATING)),
    ),
)


def endpoint(
    side: Side,
    spec: configuration.CapsuleConfigurationSpec,
    *,
    url: str,
    namespace: str,
    ca: bytes,
) -> Object:
    """Return how the API server reaches the fixed webhooks of one side, without a path.

    A Service in another namespace is somebody else's, such as a Capsule beside us, and asking it
    what it does not know would lock everybody out: so is a client that no API server would take.

    :param url: where the process was told that it is reached; wins
    :param ca: by which our own server is recognised
    """
    said = side.of(spec)
    client = said.client if said is not None else None
    trust = ca
    if client is not None and not (spec.enable_tls_reconciler and ca):
        trust = joined(ca, bundle_of(client))
    if url:
        return hooks.endpoint(url, namespace, trust)
    if client is not None and not address_problems(client):
        if client.url:
            return hooks.endpoint(client.url, namespace, trust)
        service = client.service
        if service is not None and service.namespace == namespace:
            found = hooks.endpoint("", namespace, trust)
            found["service"] |= {"name": service.name, "port": service.port or 443}
            if service.path:
                found["service"]["path"] = service.path
            return found
    found = hooks.endpoint("", namespace, trust)
    if names.is_dns_label(spec.admission.service_name):
        found["service"]["name"] = spec.admission.service_name
    return found


def server_names(
    spec: configuration.CapsuleConfigurationSpec, *, url: str, namespace: str
) -> list[str]:
    """Return what the serving certificate must name, wherever the API server reaches us."""
    found = list(hooks.server_names(url, namespace))
    if url:
        return found
    for side in SIDES:
        client = endpoint(side, spec, url="", namespace=namespace, ca=b"")
        if "url" in client:
            found += hooks.server_names(client["url"], namespace)
        else:
            host = f"{client['service']['name']}.{namespace}.svc"
            found += [host, f"{host}.cluster.local"]
    return list(dict.fromkeys(found))


def bundles(
    side: Side,
    registered: Collection[Object],
    spec: configuration.CapsuleConfigurationSpec,
    observed: Mapping[str, Any] | None,
    *,
    ca: bytes,
    manager: str,
) -> dict[str, str]:
    """Return the caBundle of each webhook: ours, the configuration's, or none where others fill it.

    :param ca: by which our own server is recognised
    :param manager: as whom we write
    """
    ours = base64.b64encode(ca).decode()
    said = side.of(spec)
    given = base64.b64encode(bundle_of(said.client)).decode() if said is not None else ""
    foreign = _filled_by_others(observed or {}, manager)
    found = {}
    for hook in registered:
        name = hook["name"]
        if spec.enable_tls_reconciler:
            found[name] = ours
        elif given:
            found[name] = given
        elif name not in foreign:
            found[name] = ours
    return found


def client_problems(client: configuration.WebhookClient) -> list[str]:
    """Return what an API server would not take, each with its field below the side."""
    found = address_problems(client)
    if client.ca_bundle and not bundle_of(client):
        found.append("client.caBundle: Invalid value: must be certificates in PEM, in base64")
    return found


def address_problems(client: configuration.WebhookClient) -> list[str]:
    """Return those of the problems for which nobody could be asked there."""
    found = []
    service = client.service
    if (client.url is None) == (service is None):
        found.append("client: Invalid value: must have either url or service")
    if client.url is not None:
        found += _url_problems(client.url)
    if service is not None:
        for field, name in (("namespace", service.namespace), ("name", service.name)):
            if not names.is_dns_label(name):
                found.append(invalid(f"client.service.{field}", name, "must be a DNS label"))
        if service.port is not None and not 1 <= service.port <= 65535:
            found.append(invalid("client.service.port", service.port, "must be 1 to 65535"))
        parts = (service.path or "").split("/")
        if parts[0] or not all(names.is_dns_subdomain(part) for part in parts[1:]):
            found.append(
                invalid("client.service.path", service.path, "must be like /prefix, of DNS names")
            )
    return found


def joined(*bundles: bytes) -> bytes:
    """Return PEM certificates one after the other, each bundle once."""
    found = list(dict.fromkeys(bundle for bundle in bundles if bundle.strip()))
    if len(found) < 2:
        return found[0] if found else b""
    return b"".join(bundle.strip() + b"\n" for bundle in found)


def override_problems(spec: configuration.CapsuleConfigurationSpec) -> list[str]:
    """Return what is wrong with the names of the certificate's Secret and of the webhooks' Service."""
    found = []
    secret, service = spec.overrides.tls_secret_name, spec.admission.service_name
    if secret and not names.is_dns_subdomain(secret):
        found.append(
            invalid("spec.overrides.TLSSecretName", secret, "must be the name of a Secret")
        )
    if service and not names.is_dns_label(service):
        found.append(
            invalid("spec.admission.serviceName", service, "must be the name of a Service")
        )
    return found


def _url_problems(url: str) -> list[str]:
    accepted = "must be https://HOST[:PORT][/PATH] without user, query and fragment"
    try:
        parts = parse.urlsplit(url)
        port = parts.port
    except ValueError:
        return [invalid("client.url", url, accepted)]
    odd = parts.query or parts.fragment or parts.username is not None or port == 0
    if parts.scheme != "https" or not parts.hostname or odd:
        return [invalid("client.url", url, accepted)]
    return []


def bundle_of(client: configuration.WebhookClient) -> bytes:
    """Return the certificates that a client names, in PEM; none where they cannot be read."""
    try:
        pem = base64.b64decode(client.ca_bundle or "", validate=True)
        if pem:
            x509.load_pem_x509_certificates(pem)
    except (ValueError, binascii.Error):
        return b""
    return pem


def client_config(client: configuration.WebhookClient, path: str) -> Object:
    if client.url:
        return {"url": client.url.rstrip("/") + path}
    service = client.service
    if service is None:
        return {}
    return {
        "service": {
            "namespace": service.namespace,
            "name": service.name,
            "port": service.port or 443,
            "path": (service.path or "").rstrip("/") + path,
        }
    }


def _filled_by_others(observed: Mapping[str, Any], manager: str) -> set[str]:
    """Return the webhooks whose caBundle somebody else writes, such as cert-manager's injector."""
    return {
        str(json.loads(key[2:]).get("name"))
        for key, fields in registration.of_others(observed, manager)
        if key.startswith("k:") and "f:caBundle" in fields.get("f:clientConfig", {})
    }


def invalid(field: str, value: object, accepted: str) -> str:
    """Word what is wrong as an API server does."""
    return f"{field}: Invalid value: {errors.shown(value)}: {accepted}"
