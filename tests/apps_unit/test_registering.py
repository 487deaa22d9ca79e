"""Where the API server is told to come while the certificate does not name that place yet."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api.capsule import configuration
from tenantry.apps import certificates, registering, settings


class _Certificate:
    def __init__(self) -> None:
        self.fails = False

    async def refresh(self) -> bool:
        if self.fails:
            raise certificates.ForeignSecretError("capsule-system", "capsule-tls")
        return True


@pytest.fixture
def made() -> Any:
    """A registration of which only the choice of the place is used."""
    found: Any = object.__new__(registering.Registration)
    found._options = settings.Settings()
    found._named = None
    found._certificate = _Certificate()
    found._reload = lambda: None
    found._known = type("Known", (), {})()
    found._known.directory = type("Directory", (), {})()
    found._known.directory.config = configuration.CapsuleConfigurationSpec()
    return found


async def test_a_place_that_the_certificate_cannot_name_waits(made: Any) -> None:
    assert await made._name() is None
    first = made._placed
    moved = configuration.CapsuleConfigurationSpec()
    moved.admission.service_name = "another"
    made._known.directory.config = moved
    made._certificate.fails = True
    assert isinstance(await made._name(), certificates.ForeignSecretError)
    assert made._placed is first
    made._certificate.fails = False
    assert await made._name() is None
    assert made._placed is moved
