from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click import testing

from tenantry.cli import main
from tenantry.core import errors
from tenantry.kube import errors as kube_errors


def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tenantry", *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
    )


def test_help_lists_every_command_without_importing_it() -> None:
    script = (
        "import sys; from tenantry.cli import main; code = main.run(['--help']);"
        "print([m for m in sys.modules if m.startswith('tenantry')], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    for name, text in main.COMMANDS.items():
        assert re.search(
            rf"^  {re.escape(name)} +{re.escape(text[:20])}", done.stdout, re.MULTILINE
        )
    assert set(eval(done.stderr)) == {
        "tenantry",
        "tenantry.cli",
        "tenantry.cli.main",
        "tenantry.core",
        "tenantry.core.errors",
    }


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_each_command_has_help_that_begins_like_its_line(name: str) -> None:
    done = testing.CliRunner().invoke(main.command, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output


@pytest.mark.parametrize(
    ("args", "code"), [(["nope"], 2), (["version", "--nope"], 2), (["version", "-o", "xml"], 2)]
)
def test_a_command_line_that_makes_no_sense(args: list[str], code: int) -> None:
    done = run(*args)
    assert done.returncode == code
    assert not done.stdout
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (errors.TenantryError("no such thing"), 1, "Error: no such thing\n"),
        (click.Abort(), 130, "Interrupted.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (click.exceptions.Exit(3), 3, ""),
        (
            kube_errors.ApiError(code=404, reason="NotFound", message='tenants "a" not found'),
            1,
            'Error from server (NotFound): tenants "a" not found\n',
        ),
    ],
)
def test_how_errors_look(
    raised: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def failing() -> None:
        raise raised

    monkeypatch.setattr(main, "command", failing)
    assert main.run([]) == code
    printed = capsys.readouterr()
    assert printed.err.lstrip("\n") == told
    assert not printed.out


def test_the_plug_in_of_kubectl_is_called_as_people_call_it() -> None:
    program = Path(sys.executable).parent / "kubectl-tenantry"
    done = subprocess.run(
        [str(program), "version", "-h"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: kubectl tenantry version")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tenantry completion bash | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr


def test_version() -> None:
    assert re.fullmatch(r"tenantry \d\S* \(Python 3\.\d+\.\d+\)\n", run("version").stdout)
    assert run("version", "-o", "jsonpath={.version}").stdout in run("version").stdout


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion(shell: str) -> None:
    done = testing.CliRunner().invoke(main.command, ["completion", shell])
    assert done.exit_code == 0
    assert "_TENANTRY_COMPLETE" in done.output


def test_completion_completes() -> None:
    env = {"_TENANTRY_COMPLETE": "bash_complete", "COMP_WORDS": "tenantry ver", "COMP_CWORD": "1"}
    assert run(env=env).stdout == "plain,version\n"
