"""A server of JSON over TLS in a thread, for parts of a cluster that are not at hand."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from http import server
from pathlib import Path
from typing import Any

from tenantry.pki import authority


class Served:
    """Answers GET requests until it is closed; `ca` is the file that proves it for 127.0.0.1."""

    def __init__(
        self, folder: Path, answer: Callable[[str], tuple[int, Any]], *, host: str = "127.0.0.1"
    ) -> None:
        """Start.

        :param answer: gives the status and the body for a request target
        """
        ca = authority.Authority.create("served", time.time())
        made = ca.issue_server(["127.0.0.1"], time.time())
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(ca.cert)
        (folder / "server.crt").write_bytes(made.cert)
        (folder / "server.key").write_bytes(made.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.crt", folder / "server.key")

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, found = answer(self.path)
                body = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = server.ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
