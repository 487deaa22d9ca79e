"""What `tenantry nodes` does where others write the same objects."""

from __future__ import annotations

import pytest

from tenantry.apps import pooling
from tenantry.kube import errors


@pytest.mark.parametrize(("lost", "done"), [(0, True), (9, True), (10, False)])
async def test_what_changed_meanwhile_is_tried_again(lost: int, done: bool) -> None:
    """A pool's status is written at any time, and each write moves its resourceVersion."""
    tries = 0

    async def work() -> str:
        nonlocal tries
        tries += 1
        if tries <= lost:
            raise errors.Conflict(409, "Conflict", "the object has been modified")
        return "released"

    if done:
        assert await pooling._retried(work) == "released"
    else:
        with pytest.raises(errors.Conflict):
            await pooling._retried(work)
    assert tries == min(lost + 1, 10)
