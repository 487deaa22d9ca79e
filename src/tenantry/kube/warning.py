"""What the API server says beside its answer: `Warning` headers (RFC 7234, code 299).

Deprecated versions, unknown fields and the warnings of admission webhooks come this way.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

logger = logging.getLogger(__name__)

#: How many different warnings one client remembers having logged.
_REMEMBERED = 256
#: 299 - "text, with \" escaped", and possibly more of the same behind a comma.
_ONE = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")


def parse(headers: Iterable[str]) -> list[str]:
    """Give the texts in the values of `Warning` headers; what is no warning is left out."""
    return [_ESCAPE.sub(r"\1", text) for header in headers for text in _ONE.findall(header) if text]


class Log:
    """The default: each different text is logged once."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, text: str) -> None:
        """Log a text unless it was logged before."""
        if text in self._known or len(self._known) >= _REMEMBERED:
            return
        self._known.add(text)
        logger.warning("api_server_warning", extra={"text": text})
