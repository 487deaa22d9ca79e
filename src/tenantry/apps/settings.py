"""What a role is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tenantry.api.capsule import constants
from tenantry.directory import identity
from tenantry.runtime import timing

#: Service accounts of the roles; the controller's is upstream's `capsule`.
WEBHOOK_SERVICE_ACCOUNT = "tenantry-webhook"
GATEWAY_SERVICE_ACCOUNT = "tenantry-gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one process, the same for all roles in it."""

    namespace: str = constants.CONTROLLER_NAMESPACE
    """the platform's own namespace"""
    configuration_name: str = constants.CONFIGURATION_NAME
    """CapsuleConfiguration in use"""
    service_accounts: tuple[str, ...] = (
        constants.CONTROLLER_SERVICE_ACCOUNT,
        WEBHOOK_SERVICE_ACCOUNT,
    )
    """service accounts of `namespace` under which the platform acts"""
    elect: bool = True
    """whether controllers wait for a Lease; off only where there can be no second process"""
    workers: int = 8
    """namespaces reconciled at a time"""
    probe_host: str = "127.0.0.1"
    probe_port: int = 8081
    """where /healthz, /readyz and /metrics are served"""
    webhook_host: str = "127.0.0.1"
    webhook_port: int = 9443
    drain: float = 8.0
    """seconds for which webhooks go on serving after a stop, since API servers use open connections"""
    webhook_client_ca: Path | None = None
    """file with the authorities (PEM) of the API server's client certificate; None = none is asked"""
    webhook_url: str = ""
    """base address the API server reaches the webhooks at; empty = the Service in `namespace`"""

    webhook_certificate: tuple[Path, Path] | None = None
    """files with certificate chain and key (PEM) that others keep; None = one in a Secret of ours"""
    timing: timing.Timing = field(default_factory=timing.Timing)
    """intervals of the process"""
    listeners: tuple[tuple[str, int, tuple[Path, ...] | None], ...] = ()
    """more addresses of probes and metrics, each with certificate and key files for TLS; no files =
    a certificate made for this process, None = no TLS"""

    @property
    def controllers(self) -> frozenset[str]:
        """Return the user names under which the platform acts."""
        prefix = f"{identity.SERVICE_ACCOUNT_PREFIX}{self.namespace}:"
        return frozenset(prefix + account for account in self.service_accounts)
