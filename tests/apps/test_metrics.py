"""Metrics of specs/capsule 6.2 where they are read, and what is made of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tenantry.deploy
from tenantry.api.capsule import resources as capsule

from .harness import World, eventually

pytestmark = pytest.mark.plane

MONITORING = Path(tenantry.deploy.__path__[0]) / "monitoring"
#: Every name of 6.2 that is about tenants, rules and configuration.
NAMES = {
    "capsule_tenant_namespace_relationship",
    "capsule_tenant_namespace_condition",
    "capsule_tenant_condition",
    "capsule_tenant_namespace_count",
    "capsule_tenant_resource_usage",
    "capsule_tenant_resource_limit",
    "capsule_config_condition",
    "capsule_rulestatus_condition",
    "capsule_tenantowner_condition",
}
_NAME = re.compile(
    r"\b(?:capsule|tenantry|controller_runtime|workqueue|rest_client|leader_election)_\w+"
)


def expressions() -> dict[str, str]:
    """Return each expression of rules and dashboard by where it is."""
    rules = (MONITORING / "alerts.yaml").read_text()
    board = json.loads((MONITORING / "dashboard.json").read_text())
    found = {
        f"panel {panel['title']}": target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
    }
    found |= {
        f"variable {each['name']}": each["query"]
        for each in board["templating"]["list"]
        if each["type"] == "query"
    }
    for block in rules.split("- alert: ")[1:]:
        name, _, rest = block.partition("\n")
        found[f"alert {name}"] = rest.partition("expr:")[2].partition("labels:")[0]
    return found


async def test_a_tenant_is_measured_until_it_is_gone(world: World) -> None:
    tenant = await world.tenant(
        namespaceOptions={"quota": 3},
        rules=[{"enforce": {"action": "deny", "services": {"types": ["NodePort"]}}}],
    )
    await world.namespace()
    oil, prod = world.name("oil"), world.name("prod")
    wanted = {
        f'capsule_tenant_namespace_relationship{{tenant="{oil}",target_namespace="{prod}"}} 1',
        f'capsule_tenant_namespace_condition{{tenant="{oil}",target_namespace="{prod}",condition="Ready"}} 1',
        f'capsule_tenant_condition{{tenant="{oil}",condition="Ready"}} 1',
        f'capsule_tenant_condition{{tenant="{oil}",condition="Cordoned"}} 0',
        f'capsule_tenant_namespace_count{{tenant="{oil}"}} 1',
        f'capsule_tenant_resource_usage{{tenant="{oil}",resource="namespaces",resourcequotaindex=""}} 1',
        f'capsule_tenant_resource_limit{{tenant="{oil}",resource="namespaces",resourcequotaindex=""}} 3',
        f'capsule_rulestatus_condition{{name="capsule-managed-rules",target_namespace="{prod}",condition="Ready"}} 1',
        'capsule_config_condition{name="default",condition="Ready"} 1',
    }

    async def lines() -> set[str]:
        return set(world.tenancy.controller.get("/metrics").splitlines())

    async def all_there() -> bool:
        missing = wanted - await lines()
        assert not missing, missing
        return True

    await eventually(all_there, "all is measured")
    await world.change(tenant, cordoned=True)
    frozen = f'capsule_tenant_condition{{tenant="{oil}",condition="Cordoned"}} 1'

    async def is_frozen() -> bool:
        return frozen in await lines()

    await eventually(is_frozen, "the tenant counts as frozen")
    await world.change(tenant, cordoned=False)
    await world.admin.delete(capsule.TENANTS, oil)

    async def ended() -> bool:
        left = [line for line in await lines() if f'"{oil}"' in line or f'"{prod}"' in line]
        assert not left, left
        return True

    await eventually(ended, "nothing is left to measure", seconds=30.0)


async def test_rules_and_dashboard_use_names_that_exist(world: World) -> None:
    roles = (world.tenancy.controller, world.tenancy.webhook)
    kinds = {
        line.split()[2]: line.split()[3]
        for role in roles
        for line in role.get("/metrics").splitlines()
        if line.startswith("# TYPE ")
    }
    assert kinds.keys() >= NAMES
    used: set[str] = set()
    for where, text in expressions().items():
        names = set(_NAME.findall(text))
        assert names, f"{where} measures nothing"
        for name in names:
            whole = name.removesuffix("_bucket")
            assert whole in kinds, f"{where} uses {name}, which nobody writes"
            assert (name != whole) == (kinds[whole] == "histogram"), f"{where}: {name}"
        used |= names
    # What this part has is worth showing.
    assert used >= NAMES - {"capsule_tenant_namespace_relationship"}
