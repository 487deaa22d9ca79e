from __future__ import annotations

from tenantry.httpproxy import limits


def test_each_key_has_its_own_places() -> None:
    found = limits.Concurrency(2)
    assert found.acquire("a")
    assert found.acquire("a")
    assert not found.acquire("a")
    assert found.acquire("b")
    found.release("a")
    assert found.acquire("a")
    assert (found.held("a"), found.held("b")) == (2, 1)


def test_zero_is_no_limit() -> None:
    found = limits.Concurrency(0)
    assert all(found.acquire("a") for _ in range(1000))
