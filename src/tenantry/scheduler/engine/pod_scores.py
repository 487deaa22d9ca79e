"""Scores that depend on the pods on nodes, so they are computed anew when those changed."""

from __future__ import annotations

import abc

import numpy as np

from tenantry.scheduler.engine import resources, session, shapes


class Recomputed(abc.ABC):
    """A score of every node for one shape, kept until the session's state changes."""

    fixed = False

    def __init__(self, session: session.Session, shape: shapes.Shape) -> None:
        self._session = session
        self._shape = shape
        self._stamp = -1
        self._score: resources.Floats = np.zeros(0)

    def everywhere(self) -> resources.Floats:
        stamp = len(self._session.state.changed)
        if stamp != self._stamp:
            self._score = self._compute()
            self._stamp = stamp
        return self._score

    def at(self, node: int) -> float:
        return float(self.everywhere()[node])

    @abc.abstractmethod
    def _compute(self) -> resources.Floats:
        """Return the score of every node as the session is now."""
