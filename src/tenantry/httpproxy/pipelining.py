"""Take answers apart that come one after the other on a connection. Pure.

They are read here and go no further. So it is enough that llhttp says where each of them ends, which
it does in C; a head that is forwarded (`heads.parse_response`) costs six times as much.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import httptools

from tenantry.httpproxy import heads

#: By either of these an answer says where it ends.
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))


@dataclasses.dataclass(slots=True)
class Answer:
    """One whole answer."""

    status: int
    fields: heads.Headers
    """as they came"""
    body: bytes

    @property
    def headers(self) -> heads.Headers:
        """The headers as they are elsewhere: names in lower case."""
        return [(name.lower(), value.strip(b" \t")) for name, value in self.fields]


class Answers:
    """Follows a connection until so many answers have come, or no more can come."""

    def __init__(self, owed: int, took: Callable[[int], None]) -> None:
        """Take the number of answers that are to come.

        :param took: is told the size of each piece of a body
        """
        self.owed = owed
        self.broken = ""
        """why nothing more can be understood; empty as long as all is"""
        self.begun = False
        """whether the head of an answer has come, and not yet all of its body"""
        self._took = took
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._found: list[Answer] = []
        self._fields: heads.Headers = []
        self._pieces: list[bytes] = []
        self._held = 0
        self._keep = True

    @property
    def over(self) -> bool:
        """Whether nothing more comes that is of use."""
        return not self.owed or not self._keep or bool(self.broken)

    @property
    def reusable(self) -> bool:
        """Whether the connection can serve others: exactly what was asked for has come."""
        return not self.owed and self._keep and not self.broken

    def feed(self, data: bytes) -> list[Answer]:
        """Take bytes; return the answers that they complete."""
        found: list[Answer] = []
        self._found = found
        if self._parser is None:
            return found
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.broken = "switches protocols"
        except httptools.HttpParserError as error:
            self.broken = self.broken or f"not HTTP: {error}"
        self._held = 0 if self.begun or found else self._held + len(data)
        if self._held > heads.RESPONSE_LIMIT:
            self.broken = "response head is too long"
        if self.over:
            # It holds us, too.
            self._parser = None
        return found

    def end(self) -> list[Answer]:
        """Note the connection's end; return the answer that ends with it, if one does."""
        if not self.begun or any(name.lower() in _FRAMING for name, _ in self._fields):
            return []
        self._keep, self._found = False, []
        self.on_message_complete()
        self._parser = None
        return self._found

    # As what llhttp reports to.

    def on_message_begin(self) -> None:
        if not self.owed:
            self.broken = "more answers than questions"
        self._fields, self._pieces = [], []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._took(len(data))

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.begun = False
        status = self._parser.get_status_code()
        if status < 200 or not self.owed:
            return
        self._found.append(Answer(status, self._fields, b"".join(self._pieces)))
        self.owed -= 1
        self._keep = self._keep and self._parser.should_keep_alive()
