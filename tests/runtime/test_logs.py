from __future__ import annotations

import io
import json
import logging
import sys

from tenantry.runtime import logs


def record(event: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("tenantry.x", logging.INFO, "f.py", 1, event, (), None)
    made.created = 1.5
    vars(made).update(extra)
    return made


def test_one_line_per_event() -> None:
    line = logs.KeyValueFormatter().format(
        record("tenant_ready", tenant="acme", count=3, odd="a b", empty="", forged="x\ny=1")
    )
    assert line == (
        "1970-01-01T00:00:01.500Z INFO tenantry.x tenant_ready"
        ' tenant=acme count=3 odd="a b" empty="" forged="x\\ny=1"'
    )


def test_an_exception_stays_on_the_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        made = record("failed\nforged")
        made.exc_info = sys.exc_info()
    line = logs.KeyValueFormatter().format(made)
    assert "\n" not in line
    assert "ValueError" in line
    assert "exception" in json.loads(logs.JsonFormatter().format(made))


def test_long_values_are_cut() -> None:
    assert len(logs.KeyValueFormatter().format(record("e", body="x" * 100_000))) < 3000


def test_json_for_machines() -> None:
    line = json.loads(logs.JsonFormatter().format(record("e", key=("ns", "name"), odd=object)))
    assert line["event"] == "e"
    assert line["key"] == ["ns", "name"]
    assert line["level"] == "info"


def test_configures_the_process() -> None:
    root, stream = logging.getLogger(), io.StringIO()
    before = root.handlers[:], root.level
    try:
        logs.configure(level="warning", stream=stream, format="json")
        logging.getLogger("a").info("quiet")
        logging.getLogger("a").warning("loud", extra={"k": 1})
        logs.configure(stream=stream)
        logging.getLogger("a").info("plain", extra={"k": 1})
    finally:
        root.handlers[:], root.level = before[0], before[1]
    first, second = stream.getvalue().splitlines()
    assert json.loads(first)["k"] == 1
    assert second.endswith("INFO a plain k=1")
