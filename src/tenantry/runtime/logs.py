"""Structured logs: one event name per line, then key=value.

logger.info("tenant_ready", extra={"tenant": "acme", "namespaces": 3})
2026-01-02T03:04:05.678Z INFO tenantry.tenancy tenant_ready tenant=acme namespaces=3
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

#: Attributes of a LogRecord that are not extras.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LONGEST_VALUE = 2048


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """Return what the caller gave as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _OWN}


def _time(record: logging.LogRecord) -> str:
    stamp = datetime.fromtimestamp(record.created, UTC)
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03d}Z"


def _plain(value: object) -> str:
    text = str(value)
    if len(text) > _LONGEST_VALUE:
        text = text[: _LONGEST_VALUE - 3] + "..."
    if text and text.isprintable() and not any(mark in text for mark in ' "='):
        return text
    # One line per event, whatever is in a value: what comes from users could forge lines.
    return json.dumps(text, ensure_ascii=False)


class KeyValueFormatter(logging.Formatter):
    """Lines for people and grep."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line."""
        parts = [_time(record), record.levelname, record.name, _message(record)]
        parts += [f"{key}={_plain(value)}" for key, value in extras(record).items()]
        if record.exc_info:
            parts.append(f"exception={_plain(self.formatException(record.exc_info))}")
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """Lines for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one JSON object."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    return message if message.isprintable() else json.dumps(message, ensure_ascii=False)


def configure(
    *,
    level: str = "INFO",
    format: Literal["text", "json"] = "text",
    stream: TextIO | None = None,
) -> None:
    """Send all logs of this process to one stream, once."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
