"""The supervisor as a process of its own: `python -m tenantry.local.daemon DIRECTORY`.

With `--detach` it leaves the terminal it was started from and lives on; the command returns once
it is clear whether there is another supervisor. With `--die-with=PID` it is killed when the thread
of process PID that started it ends, as tests want it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tenantry.local import children, launch, plan, state, supervision, supervisor


def main(args: Sequence[str]) -> int:
    root, *options = args
    for option in options:
        if option.startswith(state.DIE_WITH):
            launch.die_with_parent(int(option.removeprefix(state.DIE_WITH)))
    paths = state.Layout(Path(root))
    lock = state.Lock(paths.lock)
    if not lock.acquire():
        return state.ALREADY
    described = plan.load(paths)
    if described is None:
        print(f"{paths.plan} does not exist", file=sys.stderr)
        return 1
    if state.DETACH in options:
        _leave(paths)
        lock.sign()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def chores() -> supervisor.Chores:
        from tenantry.local import bootstrap

        return bootstrap.Bootstrap(described, paths)

    ended = asyncio.run(supervisor.Supervisor(described, paths, chores).run())
    return 0 if ended is supervision.Overall.STOPPED else 1


def _leave(paths: state.Layout) -> None:
    """Go on as a child of nobody, in a session of its own, with a log for a terminal."""
    if os.fork():
        os._exit(0)
    os.setsid()
    children.rotate(paths.log("supervisor"))
    log = os.open(paths.log("supervisor"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
