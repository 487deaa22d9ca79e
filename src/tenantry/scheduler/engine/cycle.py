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
            opened.deadline = start + self.config.action_search
            for _ in action.run(opened):
                now_cpu = cpu()
                if budget is not None and now_cpu - begun > budget:
                    made.cut_short = True
                    break
                if now_cpu - mark > self.config.slice_seconds:
                    yield
                    mark = cpu()
            made.timings.append(decisions.Timing(action.name, cpu() - start))
            if made.cut_short:
                break
