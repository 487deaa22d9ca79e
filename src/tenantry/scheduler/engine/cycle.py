"""Run the configured actions over one session, in slices; one job's fault stays its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tenantry.scheduler.engine import (
    assumed,
    config,
    decisions,
    errors,
    observed,
    plugin,
    reasons,
    registry,
    session,
    specs,
    starting,
    tables,
)


class Engine:
    """Decides. Holds no state of its own between cycles but its configuration."""

    def __init__(self, settings: config.Config | None = None) -> None:
        self.config = settings or config.Config()
        self._actions = [registry.make_action(name) for name in self.config.actions]
        named: set[str] = set()
        for choice in self.config.plugins:
            if choice.name in named:
                # Opened twice it would count everything twice.
                raise errors.InvalidArguments(choice.name, "it is named twice; accepted is once")
            named.add(choice.name)
            registry.make_plugin(choice.name, choice.arguments)
        # One step and a garbage collection still have room in the slice after this.
        self._pace = self.config.slice_seconds / 4
        self.last: session.Session | None = None
        #: What the last cycle decided.
        self.result = decisions.Decisions(tables.Tables())

    def run(
        self,
        seen: observed.Observed,
        *,
        now: float,
        clock: Callable[[], float] = time.perf_counter,
        pending_writes: assumed.Assumed | None = None,
    ) -> decisions.Decisions:
        """Run one cycle to its end and return what was decided."""
        for _ in self.cycle(seen, now=now, clock=clock, pending_writes=pending_writes):
            pass
        return self.result

    def cycle(
        self,
        seen: observed.Observed,
        *,
        now: float,
        clock: Callable[[], float] = time.perf_counter,
        pending_writes: assumed.Assumed | None = None,
    ) -> Iterator[None]:
        """Run one cycle; yields after each slice. `last.decisions` holds the result.

        The caller folds events only between cycles. An exception in an action or plugin ends that
        action; what it had not committed is undone, because a session is a copy.
        """
        begun = mark = clock()
        longest = 0.0
        if self.last is not None:
            self.last.retire()
        # To free what a busy cycle left takes a while, and so does the copy that follows.
        if clock() - mark > self._pace / 4:
            longest = clock() - mark
            yield
            mark = clock()
        try:
            opened = session.Session(
                seen, self.config, now=now, clock=clock, pending_writes=pending_writes
            )
            for _ in opened.opening():
                if clock() - mark > self._pace / 4:
                    longest = max(longest, clock() - mark)
                    yield
                    mark = clock()
        except Exception as problem:
            # A plugin that cannot open would change what the others mean: decide nothing.
            self.last, self.result = None, decisions.Decisions(tables.Tables())
            self.result.errors.append(f"opening the session: {problem!r}")
            return
        self.last, made = opened, opened.decisions
        self.result = made
        made.timings.append(decisions.Timing("snapshot", clock() - begun))
        made.longest_slice = max(longest, clock() - mark)
        # On thousands of nodes a copy of the state is most of a slice.
        if clock() - mark > self._pace:
            yield
            mark = clock()
        budget = self.config.cycle_budget
        for action in self._in_order(made):
            start = clock()
            search = self.config.action_searches.get(action.name, self.config.action_search)
            opened.deadline = start + search if search else 0.0
            for _ in self._guarded(action, opened):
                instant = clock()
                over = budget is not None and instant - begun > budget
                if over and not opened.committing:
                    self._stop(opened)
                    break
                if instant - mark > self._pace:
                    made.longest_slice = max(made.longest_slice, instant - mark)
                    yield
                    mark = clock()
            made.timings.append(decisions.Timing(action.name, clock() - start))
            if made.cut_short:
                break
        made.longest_slice = max(made.longest_slice, clock() - mark)

    def _in_order(self, made: decisions.Decisions) -> Iterator[plugin.Action]:
        """Yield the actions; after one that took back starts, once more the one that starts pods.

        Room that came back goes to whoever is next in line before a later action looks at it.
        """
        for action in self._actions:
            yield action
            if made.cancelled:
                made.cancelled = False
                yield from (again for again in self._actions if again.name == starting.ACTION)

    def explain(self, key: specs.Key) -> list[reasons.Reason]:
        """Return why a job did not start in the last cycle; empty when it did, or is unknown."""
        if self.last is None:
            return []
        found = list(self.last.decisions.reasons.get(key, ()))
        seen = self.last.observed
        why = seen.set_aside.get(("job", "/".join(key)))
        if why is not None:
            found.append(reasons.Reason(reasons.INVALID, why, {}, "correct the pod group"))
        for task in seen.refused.values():
            if task.job == key:
                name = f"{task.namespace}/{task.name}"
                why = seen.set_aside["task", name]
                found.append(
                    reasons.Reason(reasons.INVALID_POD, why, {"pod": name}, "correct the pod")
                )
        return found

    @staticmethod
    def _guarded(action: plugin.Action, opened: session.Session) -> Iterator[None]:
        """Run an action; a fault outside of a job's attempt ends it, and undoes what is open."""
        try:
            yield from action.run(opened)
        except Exception as problem:
            opened.undo()
            opened.decisions.errors.append(f"{action.name}: {problem!r}")

    @staticmethod
    def _stop(opened: session.Session) -> None:
        """End the cycle with what was committed; an attempt under way is undone."""
        opened.decisions.cut_short = True
        opened.undo()
