"""Play a walkthrough: print each command as it would be typed, its real output, and a verdict."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenantry.cli.walkthroughs import seed_000, steps
from tenantry.cli.walkthroughs.steps import Answer, Step, Walkthrough
from tenantry.core import errors

PROGRAM = "tenantry"
#: Seconds for one command, and between two tries of a step that may become right.
TIMEOUT = 120.0
RETRY = 0.2
#: Seconds in which what an earlier tour left must be gone.
CLEARED = 90.0
#: Seconds in which a part that does not answer must be back.
OUTAGE = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Player:
    """How somebody's commands are run.

    :param kubectl: path of the program
    :param arguments: what makes it act as that person (`--kubeconfig`, or `--as`)
    """

    kubectl: str
    arguments: tuple[str, ...]

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        """Run kubectl once, or `tenantry` if that is the first word."""
        command = [self.kubectl, *self.arguments, *argv]
        if argv and argv[0] == PROGRAM:
            command = [sys.executable, "-m", PROGRAM, *argv[1:], *self.arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"no answer within {TIMEOUT:g} s")
        return Answer(done.returncode, done.stdout, done.stderr)


class Stage:
    """The people of a walkthrough at one cluster, and where it is written to."""

    def __init__(self, players: Mapping[str, Player], write: Callable[[str], None]) -> None:
        self._players = players
        self._write = write

    def play(self, walkthrough: Walkthrough) -> int:
        """Play all chapters; return how many steps were wrong."""
        self._clear(walkthrough)
        wrong = total = 0
        for chapter in walkthrough.chapters:
            self._write(f"\n== {chapter.title}")
            for step in chapter.steps:
                if step.who not in self._players and step.direct:
                    step = dataclasses.replace(step, who=steps.person(step.who))
                if step.who not in self._players:
                    self._write(f"\n# {step.says}\n  [skipped] needs a gateway")
                    continue
                total += 1
                wrong += not self._step(step)
        verdict = "all right" if not wrong else f"{wrong} wrong"
        self._write(f"\n{walkthrough.title}: {total} steps, {verdict}")
        return wrong

    def _step(self, step: Step) -> bool:
        self._write(f"\n# {step.says}")
        self._write(f"{step.who}$ {typed(step)}")
        began = time.monotonic()
        while True:
            answer = self._players[step.who].run(step.argv, step.stdin)
            problem = step.check(answer)
            patience = max(step.within, OUTAGE) if steps.is_outage(answer) else step.within
            if not problem or time.monotonic() >= began + patience:
                break
            time.sleep(RETRY)
        if answer.text:
            self._write(answer.text)
        self._write("  [ok]" if not problem else f"  [WRONG] {problem}")
        return not problem

    def _clear(self, walkthrough: Walkthrough) -> None:
        """Remove the tenants of an earlier tour, and wait until their namespaces are gone.

        :raises TenantryError: when a tenant of that name is not the tour's
        """
        admin = self._players["admin"]
        found = admin.run(("get", "tenants", "-o", "json"))
        if found.code:
            # The first chapter will say what is missing.
            return
        items = {item["metadata"]["name"]: item for item in json.loads(found.output)["items"]}
        mine = [name for name in walkthrough.tenants if name in items]
        for name in mine:
            if seed_000.MARK not in (items[name]["metadata"].get("labels") or {}):
                raise errors.TenantryError(
                    f'tenant "{name}" exists and was not made by a tour; '
                    "the tour would remove it, so it does not start"
                )
        if not mine:
            return
        self._write(f"removing what an earlier tour left: {', '.join(mine)}")
        gone = admin.run(("delete", "tenants", *mine, "--wait=false"))
        waited = admin.run(("wait", "--for=delete", f"--timeout={int(CLEARED)}s",
                            *(f"tenant/{name}" for name in mine)))  # fmt: skip
        if gone.code or waited.code:
            raise errors.TenantryError(f"could not remove them: {(gone.errors + waited.errors)}")


def typed(step: Step) -> str:
    """Return the command line as a person would type it."""
    program = () if step.argv and step.argv[0] == PROGRAM else ("kubectl",)
    line = shlex.join((*program, *step.argv))
    return f"{line} <<EOF\n{step.stdin}EOF" if step.stdin else line


def impersonating(kubectl: str, base: Sequence[str], user: str, groups: Sequence[str]) -> Player:
    """Return a player who acts as somebody by an administrator's right to impersonate."""
    flags = [f"--as={user}", *(f"--as-group={group}" for group in groups)]
    return Player(kubectl, (*base, *flags))


def with_kubeconfig(kubectl: str, path: Path) -> Player:
    """Return a player with a kubeconfig of their own."""
    return Player(kubectl, ("--kubeconfig", str(path)))
