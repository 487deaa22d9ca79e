from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tenantry.local import errors, stopping


def test_the_signal_ends_the_block_in_good_order() -> None:
    before = signal.getsignal(signal.SIGTERM)
    cleaned = False

    def work() -> None:
        nonlocal cleaned
        try:
            stopping.terminate(os.getpid())
            for _ in range(100):
                time.sleep(0.1)
        except Exception:  # no handler of ordinary errors may take it for one
            pytest.fail("swallowed")
        finally:
            cleaned = True

    with (
        pytest.raises(errors.LocalError, match="stopped by `tenantry local down`"),
        stopping.stoppable(),
    ):
        work()
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_is_for_the_main_thread_only() -> None:
    seen: list[str] = []

    def block() -> None:
        with stopping.stoppable():
            seen.append("ran")

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert seen == ["ran"]


def test_who_is_gone_needs_no_asking() -> None:
    stopping.terminate(1 << 22)
