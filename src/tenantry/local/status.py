"""What the supervisor tells others, through a file: how each unit is."""

from __future__ import annotations

import msgspec

from tenantry.local import errors, state, supervision


class UnitStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    kind: str
    phase: str
    pid: int | None = None
    #: Seconds since the epoch when it entered the phase.
    since: float = 0.0
    #: Seconds from start to ready.
    took: float | None = None
    restarts: int = 0
    reason: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    #: One of supervision.Overall's values.
    phase: str
    reason: str = ""
    pid: int | None = None
    started: float = 0.0
    servers: tuple[str, ...] = ()
    kubeconfig: str = ""
    units: tuple[UnitStatus, ...] = ()

    @property
    def alive(self) -> bool:
        return self.phase not in {
            supervision.Overall.STOPPED.value,
            supervision.Overall.FAILED.value,
        }


def load(paths: state.Layout) -> Status:
    """Read how the platform is; a supervisor that died without a word counts as stopped."""
    content = state.read(paths.status)
    stopped = Status(name=paths.name, phase=supervision.Overall.STOPPED.value)
    if content is None:
        return stopped
    try:
        found = msgspec.json.decode(content, type=Status)
    except msgspec.DecodeError as err:
        raise errors.BrokenStateError(paths.status, str(err)) from err
    if found.alive and state.holder(paths.lock) is None:
        return msgspec.structs.replace(stopped, reason="its supervisor was killed")
    return found


def store(status: Status, paths: state.Layout) -> None:
    # It is about processes, which no power cut survives.
    content = msgspec.json.format(msgspec.json.encode(status))
    state.write(paths.status, content, durable=False)
