"""The controller role: everything that reconciles, on the leader."""

from __future__ import annotations

from tenantry.api.capsule import constants
from tenantry.apps import pools, settings
from tenantry.runtime import events, manager
from tenantry.tenancy import catalog, measures, reservations, state
from tenantry.tenancy import families as copied
from tenantry.tenancy.controllers import (
    families,
    ledgers,
    namespaces,
    platform,
    rules,
    tenants,
    volumes,
)


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
        home=lambda: known.directory.config.events.namespace,
    )
    part.add_work("tenant-events", recorder.run)

    def classes_changed(name: str) -> None:
        tenant.note(name)

    classes = catalog.Catalog(source, known.directory.tenants, classes_changed)
    part.add_setup("classes", classes.first_look)
    part.add_work("classes", classes.run)
    tenant = tenants.TenantController(source, known, recorder, classes=classes.usable)
    counts = reservations.NamespaceReservations(source.client, options.namespace)
    namespace = namespaces.NamespaceController(
        source, known, on_outcome=tenant.note, concurrency=options.workers
    )
    pools.add(
        part,
        known,
        recorder,
        namespace_changed=namespace.controller.enqueue,
    )
    for built in (
        platform.ConfigurationController(source, known),
        platform.ProvisioningController(source, known),
        platform.TenantOwnerController(source, known),
        namespace,
        tenant,
        ledgers.LedgerController(source, known, counts),
        volumes.VolumeController(source, known),
        rules.RuleController(source, known),
    ):
        part.add_controller(built.controller)
    for family in copied.ALL:
        part.add_controller(families.FamilyController(source, known, family).controller)
    measures.register(source, known)
