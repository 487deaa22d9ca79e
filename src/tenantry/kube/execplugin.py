"""Exec credential plugins: what they are told, what they answer, how they are run.

Source: `k8s.io/client-go/plugin/pkg/client/auth/exec`. `environment` and `parse` are pure.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from tenantry.core import clock
from tenantry.kube import config as configs
from tenantry.kube import errors

#: Seconds a plugin may take; one that can ask the user may wait for a browser.
TIMEOUT = 60.0
INTERACTIVE_TIMEOUT = 300.0
_STDERR_EXCERPT = 400


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What a plugin printed."""

    token: str = dataclasses.field(default="", repr=False)
    cert: bytes = dataclasses.field(default=b"", repr=False)
    key: bytes = dataclasses.field(default=b"", repr=False)
    #: Wall-clock seconds; None means until the server says 401.
    expires: float | None = None


class _CredentialStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


def environment(
    config: configs.Config,
    plugin: configs.ExecPlugin,
    base: Mapping[str, str],
    *,
    interactive: bool,
) -> dict[str, str]:
    """Give the plugin's environment: ours, its own entries, and KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        cluster: dict[str, Any] = {"server": config.server}
        if config.ca_data:
            cluster["certificate-authority-data"] = base64.b64encode(config.ca_data).decode()
        if config.insecure:
            cluster["insecure-skip-tls-verify"] = True
        if config.tls_server_name:
            cluster["tls-server-name"] = config.tls_server_name
        if config.proxy_url:
            cluster["proxy-url"] = config.proxy_url
        if plugin.cluster_config is not None:
            cluster["config"] = plugin.cluster_config
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {**base, **dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


def parse(output: bytes, plugin: configs.ExecPlugin) -> Answer:
    """Read what a plugin printed.

    :raises ConfigError: when it is not a usable ExecCredential of the version asked for
    """
    where = f"exec plugin {plugin.command}"
    try:
        credential = msgspec.json.decode(output, type=_Credential)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"{where}: output is no ExecCredential: {error}") from error
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        raise errors.ConfigError(
            f"{where}: answered {credential.api_version} {credential.kind},"
            f" expected {plugin.api_version} ExecCredential"
        )
    status = credential.status or _CredentialStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise errors.ConfigError(f"{where}: certificate and key must come together")
    if not status.token and not status.client_certificate_data:
        raise errors.ConfigError(f"{where}: gave neither a token nor a client certificate")
    expires = None
    if status.expiration_timestamp:
        try:
            expires = clock.parse_rfc3339(status.expiration_timestamp)
        except ValueError:
            raise errors.ConfigError(
                f"{where}: expirationTimestamp {status.expiration_timestamp!r} is no RFC 3339 time"
            ) from None
    return Answer(
        token=status.token,
        cert=status.client_certificate_data.encode(),
        key=status.client_key_data.encode(),
        expires=expires,
    )


async def run(
    config: configs.Config, plugin: configs.ExecPlugin, timeout: float | None = None
) -> Answer:
    """Run the plugin once.

    :param timeout: seconds, by default as the constants above say
    :raises ConfigError: when it does not exist, fails, takes longer than `timeout` seconds, or
        needs a terminal and there is none
    """
    where = f"exec plugin {plugin.command}"
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise errors.ConfigError(f"{where}: needs a terminal (interactiveMode: Always)")
    interactive = terminal and plugin.interactive_mode != "Never"
    limit = timeout or (INTERACTIVE_TIMEOUT if interactive else TIMEOUT)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment(config, plugin, os.environ, interactive=interactive),
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A person must be able to read the plugin's prompt.
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise errors.ConfigError(f"{where}: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(limit):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise errors.ConfigError(f"{where}: no answer within {limit:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        excerpt = (stderr or b"")[-_STDERR_EXCERPT:].decode("utf-8", "replace").strip()
        raise errors.ConfigError(f"{where}: exit code {process.returncode}: {excerpt}")
    return parse(stdout, plugin)
