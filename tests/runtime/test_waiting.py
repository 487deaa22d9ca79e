from __future__ import annotations

import asyncio

from tenantry.runtime import waiting


async def test_who_waits_for_less_is_woken_first_and_who_gave_up_not_at_all() -> None:
    waiters = waiting.Waiters()
    woken: list[int] = []

    async def wait(wanted: int) -> None:
        assert await waiters.wait(wanted, 10)
        woken.append(wanted)

    tasks = [asyncio.create_task(wait(wanted)) for wanted in (7, 3, 5, 9)]
    await asyncio.sleep(0)
    assert len(waiters) == 4
    waiters.release(None)
    waiters.release(2)
    # Gives up in the same turn in which it would be woken.
    tasks[2].cancel()
    waiters.release(7)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert woken == [3, 7]
    assert len(waiters) == 1
    waiters.release(100)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert woken == [3, 7, 9]
    assert not await waiters.wait(1, 0)
    assert not len(waiters)
