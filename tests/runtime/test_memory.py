from __future__ import annotations

import gc

from tenantry.runtime import memory


def test_the_collector_rests_until_the_last_cache_is_filled() -> None:
    assert gc.isenabled()
    with memory.paused():
        with memory.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_is_alive_is_not_looked_at_again() -> None:
    threshold = gc.get_threshold()
    try:
        memory.tune()
        assert gc.get_threshold()[0] == 100_000
        memory.settle()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
