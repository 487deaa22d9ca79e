"""Run the configured actions over one session, in slices; one job's fault stays its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tenantry.scheduler.engine import config, decisions, observed, registry, session


class Engine:
    """Decides. Holds no state of its own between cycles but its configuration."""

    def __init__(self, settings: config.Config | None = None) -> None:
        self.config = settings or config.Config()
        self._actions = [registry.make_action(name) for name in self.config.actions]
        for choice in self.config.plugins:
            registry.make_plugin(choice.name, choice.arguments)
        self.last: session.Session | None = None

    def run(
        self,
        seen: observed.Observed,
        *,
        now: float,
        cpu: Callable[[], float] = time.process_time,
    ) -> decisions.Decisions:
        """Run one cycle to its end and return what was decided."""
        for _ in self.cycle(seen, now=now, cpu=cpu):
            pass
        assert self.last is not None
        return self.last.decisions

    def cycle(
        self,
        seen: observed.Observed,
        *,
        now: float,
        cpu: Callable[[], float] = time.process_time,
    ) -> Iterator[None]:
        """Run one cycle; yields after each slice. `last.decisions` holds the result.

        The caller folds events only between cycles. An exception in an action or plugin ends that
        action; what it had not committed is undone, because a session is a copy.
        """
        begun = cpu()
        opened = session.Session(seen, self.config, now=now, cpu=cpu)
        self.last = opened
        made = opened.decisions
        made.timings.append(decisions.Timing("snapshot", cpu() - begun))
        budget = self.config.cycle_budget
        mark = cpu()
        for action in self._actions:
            start = cpu()
            opened.deadline = start + self.config.action_search if self.config.action_search else 0
            for _ in action.run(opened):
                instant = cpu()
                if budget is not None and instant - begun > budget:
                    self._stop(opened)
                    break
                if instant - mark > self.config.slice_seconds / 2:
                    made.longest_slice = max(made.longest_slice, instant - mark)
                    yield
                    mark = cpu()
            made.timings.append(decisions.Timing(action.name, cpu() - start))
            if made.cut_short:
                break

    @staticmethod
    def _stop(opened: session.Session) -> None:
        """End the cycle with what was committed; an attempt under way is undone."""
        opened.decisions.cut_short = True
        if opened.journal is not None:
            opened.journal.rollback()
