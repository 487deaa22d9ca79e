"""The bound on what caches hold: arithmetic, and a cluster that fills up."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.local import testing
from tenantry.runtime import budget, cluster, errors, views

from .conftest import SELECTOR, Until, config_map

MAPS = resources.CONFIG_MAPS


def test_counts_each_object_once_as_it_is_now() -> None:
    held = budget.Budget(100)
    held.put("a", 60, "pods")
    held.put("a", 30, "pods")
    held.put("b", 70, "pods")
    assert held.used == 100
    held.remove("b")
    held.remove("b")
    held.remove("unknown")
    assert held.used == 30
    held.put("b", 70, "pods")
    with pytest.raises(errors.CacheFullError, match=r"100 bytes.*secrets"):
        held.put("c", 1, "secrets")


def test_a_bound_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="cache bytes: 0"):
        budget.Budget(0)


@pytest.mark.plane
async def test_a_cluster_that_fills_up_ends_itself_and_no_other(
    plane: testing.Plane, admin: kube.Client, namespace: str, until: Until
) -> None:
    def maps(source: cluster.Cluster) -> int:
        found = source.informer(MAPS, views.as_bytes, namespace=namespace, label_selector=SELECTOR)
        return len(found)

    await admin.create(MAPS, config_map(namespace, "a", x="y" * 10_000))
    async with (
        cluster.Cluster(admin, cache_bytes=50_000) as small,
        cluster.Cluster(admin) as other,
    ):
        maps(small)
        maps(other)
        await small.wait_synced(20)
        await other.wait_synced(20)
        # The same place is used again: what went does not count.
        for _ in range(6):
            await admin.patch(MAPS, "a", namespace, kind="merge", body={"data": {"x": "z" * 9999}})
            await admin.delete(MAPS, "a", namespace)
            await admin.create(MAPS, config_map(namespace, "a", x="y" * 10_000))
        for name in "bcdef":
            await admin.create(MAPS, config_map(namespace, name, x="y" * 10_000))
        with pytest.raises(errors.CacheFullError, match=r"50000 bytes.*configmaps"):
            await small.run_until_crash()
        await until(lambda: maps(other) == 6)
        assert maps(small) < 6
    async with cluster.Cluster(admin, cache_bytes=50_000) as again:
        maps(again)
        with pytest.raises(errors.CacheFullError):
            await again.wait_synced(20)
