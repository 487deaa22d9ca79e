"""What policies speak of besides the object itself: classes, volumes, host names in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenantry.tenancy.policy import classes, volumes


def _none(*_: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is, as far as one review may ask.

    :param find: gives a class by kind and name
    :param default: gives the cluster's own default of a kind of class
    :param volume: gives a PersistentVolume by name
    :param taken: which host names and paths of the object others have, in the tenant's scope
    """

    find: Callable[[str, str], classes.View | None] = _none
    default: Callable[[str], classes.View | None] = _none
    volume: Callable[[str], volumes.Volume | None] = _none
    taken: Sequence[tuple[str, str]] = ()


NOTHING = Surroundings()
