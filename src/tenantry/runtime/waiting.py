"""Those who wait for a cache to reach a version, woken in order of what they wait for."""

from __future__ import annotations

import asyncio
import heapq


class Waiters:
    """Futures by version."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[bool]]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    async def wait(self, wanted: int, timeout: float) -> bool:
        """Wait for `release` of at least this version; False at the deadline."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._heap, (wanted, self._sequence, future))
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return False
        finally:
            # Whatever ended the wait has ended the future, too.
            self._heap = [waiter for waiter in self._heap if not waiter[2].done()]
            heapq.heapify(self._heap)

    def release(self, held: int | None) -> None:
        """Wake all who wait for a version up to the one held now."""
        while held is not None and self._heap and self._heap[0][0] <= held:
            future = heapq.heappop(self._heap)[2]
            if not future.done():
                future.set_result(True)
