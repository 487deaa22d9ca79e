"""Certificates with their private keys into TLS contexts, without the key lying on a disk.

`ssl` reads them from files only. Where the kernel has files that exist in memory alone and have no
name, those are used; elsewhere files in a directory for this user alone, for a moment.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import ssl
import tempfile
from collections.abc import Iterator


def load(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Load a certificate chain and its key, both PEM.

    :raises ssl.SSLError: when they are no PEM, or do not belong together
    :raises ValueError: when the key is encrypted
    """
    with _file(chain) as chain_path, _file(key) as key_path:
        # A key with a pass phrase would make OpenSSL ask on the terminal.
        context.load_cert_chain(chain_path, key_path, password=_refuse_password)


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Give a path at which this process can read `content` during the block."""
    with contextlib.ExitStack() as stack:
        path = _in_memory(content, stack)
        if not path:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tenantry-"))  # 0700
            path = f"{folder}/pem"
            pathlib.Path(path).write_bytes(content)
        yield path


def _in_memory(content: bytes, stack: contextlib.ExitStack) -> str:
    """Make a file without a name; return its path, or "" where that cannot be had."""
    if not hasattr(os, "memfd_create"):
        return ""
    try:
        descriptor = os.memfd_create("tenantry-pem", os.MFD_CLOEXEC)
    except OSError:
        return ""
    file = stack.enter_context(os.fdopen(descriptor, "wb", buffering=0))
    file.write(content)
    path = f"/proc/self/fd/{descriptor}"
    return path if os.access(path, os.R_OK) else ""


def _refuse_password() -> str:
    raise ValueError("the key is encrypted; keys with a pass phrase are not supported")
