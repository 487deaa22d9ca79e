"""A step of a walkthrough, and the ways to judge its answer; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gave."""

    code: int
    output: str
    """standard output"""
    errors: str
    """standard error"""

    @property
    def text(self) -> str:
        """Return both streams as a terminal shows them."""
        return "\n".join(part.rstrip() for part in (self.output, self.errors) if part.strip())


#: Tells what is wrong with an answer; "" when it is right.
Check = Callable[[Answer], str]

#: What kubectl says when a server did not answer, rather than that it refused.
_OUTAGES = (
    "connection refused",
    "connection reset",
    "failed calling webhook",
    "etcdserver:",
    "unexpected EOF",
    "TLS handshake",
    "Unable to connect to the server",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command.

    :param says: what the step shows, for the reader
    :param who: "admin", a user of the walkthrough, or such a user at the gateway (`at_gateway`)
    :param argv: the arguments of kubectl, or a command line that begins with "tenantry"
    :param stdin: the manifest that is piped in
    :param within: seconds in which the answer may become right
    :param direct: without a gateway its user does the same at the API server
    """

    says: str
    argv: Sequence[str]
    check: Check
    who: str = "admin"
    stdin: str = ""
    within: float = 0.0
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Steps under a heading of the document."""

    title: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walkthrough:
    """A document's commands.

    :param tenants: tenants that it creates, removed before it is played again
    :param users: people other than the administrator, with their groups
    """

    name: str
    title: str
    tenants: Sequence[str]
    users: dict[str, Sequence[str]]
    chapters: Sequence[Chapter]


def at_gateway(user: str) -> str:
    """Name a user whose kubeconfig points at the gateway."""
    return f"{user}@gateway"


def person(who: str) -> str:
    """Return the user, wherever the kubeconfig points."""
    return who.removesuffix("@gateway")


def is_outage(answer: Answer) -> bool:
    """Tell whether a part of the platform did not answer, so that nothing was decided."""
    return bool(answer.code) and any(sign in answer.errors for sign in _OUTAGES)


def succeeds(answer: Answer) -> str:
    """Expect exit code 0."""
    return "" if answer.code == 0 else f"expected success, got exit code {answer.code}"


def prints(*expected: str) -> Check:
    """Expect success, and each of these texts in the output."""

    def check(answer: Answer) -> str:
        missing = [text for text in expected if text not in answer.output]
        return succeeds(answer) or (f"expected in the output: {missing[0]!r}" if missing else "")

    return check


def equals(expected: str) -> Check:
    """Expect exactly this output, apart from white space around it."""

    def check(answer: Answer) -> str:
        if answer.output.strip() == expected:
            return ""
        return f"expected exactly {expected!r}"

    return check


def lists(*hers: str, never: Sequence[str]) -> Check:
    """Expect success, each of these texts, and none of those that are other people's.

    For listings of somebody who may own more than the walkthrough gave them.
    """

    def check(answer: Answer) -> str:
        foreign = [text for text in never if text in answer.output]
        return prints(*hers)(answer) or (f"expected nowhere: {foreign[0]!r}" if foreign else "")

    return check


def refused(*expected: str) -> Check:
    """Expect a refusal by the API server with each of these texts in its message."""

    def check(answer: Answer) -> str:
        if answer.code == 0:
            return "expected a refusal, but it was allowed"
        missing = [text for text in expected if text not in answer.errors]
        return f"expected in the refusal: {missing[0]!r}" if missing else ""

    return check


def columns(header: Sequence[str], *rows: Sequence[str]) -> Check:
    """Expect a table with exactly these columns and among others these rows.

    Cells are found by the positions of the titles, so empty ones count. A cell given as "*" may
    be anything but empty (ages).
    """

    def check(answer: Answer) -> str:
        lines = answer.output.splitlines()
        if not lines or _split_titles(lines[0]) != list(header):
            return f"expected the columns {'  '.join(header)}"
        starts = [lines[0].index(title) for title in header]
        table = [_cells(line, starts) for line in lines[1:]]
        for row in rows:
            if not any(_fits(row, cells) for cells in table):
                return f"expected a row {'  '.join(cell or '-' for cell in row)}"
        return ""

    return check


def _split_titles(line: str) -> list[str]:
    return [part for part in (piece.strip() for piece in line.split("   ")) if part]


def _cells(line: str, starts: Sequence[int]) -> list[str]:
    ends = [*starts[1:], len(line)]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _fits(expected: Sequence[str], cells: Sequence[str]) -> bool:
    return all(
        bool(cell) if wanted == "*" else wanted == cell
        for wanted, cell in zip(expected, cells, strict=True)
    )
