"""The controller role: everything that reconciles, on the leader."""

from __future__ import annotations

from tenantry.api.capsule import constants
from tenantry.apps import settings
from tenantry.runtime import events, manager
from tenantry.tenancy import reservations, state
from tenantry.tenancy.controllers import ledgers, namespaces, platform, tenants, volumes


def add(part: manager.Manager, known: state.State, options: settings.Settings) -> None:
    """Add the controller role to a process."""
    source = part.cluster

    def configured() -> str:
        name = options.configuration_name
        found = known.configurations.get(name)
        return "" if found is not None else f"CapsuleConfiguration {name} does not exist yet"

    part.add_check("configuration", configured)
    recorder = events.Recorder(
        source.client,
        constants.EVENT_CONTROLLER,
        "tenantry-controller",
        timing=source.timing,
        registry=source.metrics,
    )
    part.add_work("tenant-events", recorder.run)
    tenant = tenants.TenantController(source, known, recorder)
    counts = reservations.NamespaceReservations(source.client, options.namespace)
    for built in (
        platform.ConfigurationController(source, known),
        platform.ProvisioningController(source, known),
        platform.TenantOwnerController(source, known),
        namespaces.NamespaceController(
            source, known, on_outcome=tenant.note, concurrency=options.workers
        ),
        tenant,
        ledgers.LedgerController(source, known, counts),
        volumes.VolumeController(source, known),
    ):
        part.add_controller(built.controller)
