"""How the steps of a walkthrough are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.cli import main
from tenantry.cli.walkthroughs import play, seed_000, steps

LISTING = """\
NAME         STATE    NAMESPACE QUOTA   NAMESPACE COUNT   NODE SELECTOR   READY   STATUS       AGE
hypersuite   Active                     1                                 True    reconciled   18d
"""
ROW = ("hypersuite", "Active", "", "1", "", "True", "reconciled", "*")


@pytest.mark.parametrize(
    ("check", "answer", "wrong"),
    [
        (steps.succeeds, steps.Answer(0, "", ""), False),
        (steps.succeeds, steps.Answer(1, "", "no"), True),
        (steps.prints("a", "b"), steps.Answer(0, "b a", ""), False),
        (steps.prints("a", "b"), steps.Answer(0, "a", ""), True),
        (steps.prints("a"), steps.Answer(1, "a", ""), True),
        (steps.equals("yes"), steps.Answer(0, "yes\n", ""), False),
        (steps.equals("yes"), steps.Answer(0, "yes no", ""), True),
        (steps.lists("a", never=("x",)), steps.Answer(0, "b a", ""), False),
        (steps.lists("a", never=("x",)), steps.Answer(0, "a x", ""), True),
        (steps.lists("a", never=("x",)), steps.Answer(0, "b", ""), True),
        (steps.refused("x"), steps.Answer(1, "", "because x"), False),
        (steps.refused("x"), steps.Answer(1, "", "because y"), True),
        (steps.refused("x"), steps.Answer(0, "x", ""), True),
        (steps.columns(seed_000.TENANTS_HEADER, ROW), steps.Answer(0, LISTING, ""), False),
        (steps.columns(("NAME", "AGE"), ROW), steps.Answer(0, LISTING, ""), True),
        (
            steps.columns(seed_000.TENANTS_HEADER, (*ROW[:2], "3", *ROW[3:])),
            steps.Answer(0, LISTING, ""),
            True,
        ),
        (steps.columns(seed_000.TENANTS_HEADER, ROW), steps.Answer(0, "", ""), True),
    ],
)
def test_checks(check: steps.Check, answer: steps.Answer, wrong: bool) -> None:
    assert bool(check(answer)) is wrong


def _played(answers: list[str], step: steps.Step, who: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Play one step against a program that gives these answers, the last one for ever."""
    monkeypatch.setattr(play, "RETRY", 0.0)
    given = iter(answers)
    last = [""]

    def run(_player: play.Player, _argv: object, _stdin: str = "") -> steps.Answer:
        last[0] = next(given, last[0])
        return steps.Answer(int(bool(last[0])), "", last[0])

    monkeypatch.setattr(play.Player, "run", run)
    said: list[str] = []
    stage = play.Stage({"admin": play.Player("", ()), who: play.Player("", ())}, said.append)
    monkeypatch.setattr(stage, "_clear", lambda _: None)
    chapter = steps.Chapter(title="c", steps=(step,))
    stage.play(steps.Walkthrough(name="t", title="t", chapters=(chapter,), tenants=(), users={}))
    return "\n".join(said)


def test_a_part_that_does_not_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    down = "failed calling webhook: connection refused"
    step = steps.Step(says="s", argv=("x",), check=steps.succeeds)
    assert "[ok]" in _played([down, down, ""], step, "admin", monkeypatch)
    assert "[WRONG]" in _played(["denied the request", ""], step, "admin", monkeypatch)
    monkeypatch.setattr(play, "OUTAGE", 0.0)
    assert "[WRONG]" in _played([down], step, "admin", monkeypatch)


def test_without_a_gateway_what_is_needed_later_is_done_at_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_gateway = steps.at_gateway("alice")
    step = steps.Step(says="s", argv=("x",), check=steps.succeeds, who=at_gateway, direct=True)
    assert "alice$ kubectl x" in _played([""], step, "alice", monkeypatch)
    step = steps.Step(says="s", argv=("x",), check=steps.succeeds, who=at_gateway)
    assert "[skipped] needs a gateway" in _played([""], step, "alice", monkeypatch)


def test_a_command_is_shown_as_it_is_typed() -> None:
    step = steps.Step(says="", argv=("get", "x", "-o", "jsonpath={.a}"), check=steps.succeeds)
    assert play.typed(step) == "kubectl get x -o 'jsonpath={.a}'"
    piped = steps.Step(says="", argv=("apply", "-f", "-"), stdin="a: b\n", check=steps.succeeds)
    assert play.typed(piped) == "kubectl apply -f - <<EOF\na: b\nEOF"


def test_the_columns_are_those_of_the_seed() -> None:
    # fixtures/seed-000/expected-columns.txt
    expected = "NAME STATE NAMESPACE QUOTA NAMESPACE COUNT NODE SELECTOR READY STATUS AGE"
    assert " ".join(seed_000.TENANTS_HEADER) == expected


@pytest.mark.parametrize(
    ("text", "said"), [(None, "kubeconfig does not exist"), ("a: [", "kubeconfig is not YAML")]
)
def test_a_kubeconfig_that_does_not_do_is_told_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    assert main.run(["tour", "--kubeconfig", str(path)]) == 1
    captured = capsys.readouterr()
    assert f"{path}: {said}" in captured.err
    assert captured.out == ""
