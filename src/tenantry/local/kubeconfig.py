"""Kubeconfig files for the users of a platform."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tenantry.pki import authority


def with_certificate(
    *, platform: str, server: str, ca: bytes, user: str, issued: authority.Issued
) -> bytes:
    """Write a kubeconfig that needs no other file: everything is inside."""
    fields = {
        "client-certificate-data": _inline(issued.cert),
        "client-key-data": _inline(issued.key),
    }
    return _written(platform=platform, server=server, ca=ca, user=user, fields=fields)


def with_token_file(*, platform: str, server: str, ca: bytes, user: str, token: Path) -> bytes:
    """Write a kubeconfig whose token is read from a file, which somebody keeps fresh."""
    fields = {"tokenFile": json.dumps(str(token))}
    return _written(platform=platform, server=server, ca=ca, user=user, fields=fields)


def _written(*, platform: str, server: str, ca: bytes, user: str, fields: dict[str, str]) -> bytes:
    # JSON's strings are YAML's, so quoting by json.dumps is right for any user name.
    cluster, name = json.dumps(f"tenantry-{platform}"), json.dumps(user)
    context = json.dumps(f"{user}@tenantry-{platform}")
    credentials = "".join(f"\n    {key}: {value}" for key, value in fields.items())
    return f"""\
apiVersion: v1
kind: Config
current-context: {context}
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {_inline(ca)}
contexts:
- name: {context}
  context:
    cluster: {cluster}
    user: {name}
users:
- name: {name}
  user:{credentials}
""".encode()


def _inline(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
