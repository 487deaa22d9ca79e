from __future__ import annotations

from typing import Any

import click
import pytest
from click import testing

from tenantry.cli import printers
from tenantry.core import errors

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
TENANT = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": {"name": "t"}}


@pytest.mark.parametrize(
    ("value", "output", "expected"),
    [
        ({"a": "ä"}, "json", '{\n  "a": "ä"\n}'),
        ({"b": 1, "a": [2]}, "yaml", "b: 1\na:\n- 2"),
        (POD, "name", "pod/a"),
        ({"items": [POD, TENANT]}, "name", "pod/a\ntenant.capsule.clastix.io/t"),
        ([{"name": "x"}], "name", "x"),
        (POD, "jsonpath={.metadata.name}", "a"),
    ],
)
def test_formats(value: Any, output: str, expected: str) -> None:
    assert printers.formatted(value, output) == expected


def test_what_has_no_name_has_none_to_show() -> None:
    assert printers.formatted({"items": []}, "name") == ""
    with pytest.raises(errors.InvalidValueError, match="json, yaml or jsonpath=TEMPLATE"):
        printers.formatted({"version": "1"}, "name")


def test_an_unknown_format() -> None:
    with pytest.raises(errors.InvalidValueError, match="json, yaml, name"):
        printers.formatted({}, "xml")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "for people\n"),
        (["-o", "json"], '{\n  "a": 1\n}\n'),
        (["-o", "jsonpath={.a}"], "1"),
    ],
)
def test_the_option(args: list[str], expected: str) -> None:
    @click.command()
    @printers.option()
    def command(output: str) -> None:
        printers.show({"a": 1}, output, lambda: "for people")

    assert testing.CliRunner().invoke(command, args).output == expected


def test_table() -> None:
    rows = [("a", 1, ""), ("longer", 22, "x")]
    assert printers.table(("NAME", "N", "REASON"), rows).splitlines() == [
        "NAME     N    REASON",
        "a        1",
        "longer   22   x",
    ]
    assert printers.table(("A", "B"), []) == "A   B"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 61, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (3000 * 86400, "8y"),
    ],
)
def test_age_as_kubectl_writes_it(seconds: float, expected: str) -> None:
    assert printers.age(seconds) == expected
