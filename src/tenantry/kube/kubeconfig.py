"""What kubeconfig files mean: parse one, merge several, resolve a context. Pure.

Rules as in client-go: per map entry and per scalar, the first file that sets a value wins; whole
entries are taken, never merged inside; relative file names are relative to the file that names
them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from tenantry.core import yamls
from tenantry.kube import config as configs
from tenantry.kube import errors

_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One cluster, user or context, and the file it stands in."""

    value: dict[str, Any]
    path: str


@dataclasses.dataclass
class Document:
    """One kubeconfig, or several merged."""

    current_context: str = ""
    clusters: dict[str, Entry] = dataclasses.field(default_factory=dict)
    users: dict[str, Entry] = dataclasses.field(default_factory=dict)
    contexts: dict[str, Entry] = dataclasses.field(default_factory=dict)


def parse(text: bytes, path: str) -> Document:
    """Read one file's text; YAML or JSON.

    :raises ConfigError: with path and place
    """
    import yaml

    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.ConfigError(
            f"{path}: kubeconfig is not YAML: {yamls.problem(error)}"
        ) from error
    if raw is None:
        return Document()
    if not isinstance(raw, dict):
        raise errors.ConfigError(f"{path}: kubeconfig must be a mapping")
    document = Document(current_context=_text(raw, "current-context", path))
    for plural, singular in _LISTS.items():
        entries: dict[str, Entry] = getattr(document, plural)
        items = raw.get(plural) or []
        if not isinstance(items, list):
            raise errors.ConfigError(f"{path}: {plural} must be a list")
        for index, item in enumerate(items):
            where = f"{path}: {plural}[{index}]"
            if not isinstance(item, dict):
                raise errors.ConfigError(f"{where} must be a mapping")
            name, value = _text(item, "name", where), item.get(singular) or {}
            if not name:
                raise errors.ConfigError(f"{where} has no name")
            if not isinstance(value, dict):
                raise errors.ConfigError(f"{where}.{singular} must be a mapping")
            entries.setdefault(name, Entry(value, path))
    return document


def merge(documents: Sequence[Document]) -> Document:
    """Merge in order of precedence."""
    merged = Document()
    for document in documents:
        merged.current_context = merged.current_context or document.current_context
        for plural in _LISTS:
            entries: dict[str, Entry] = getattr(merged, plural)
            for name, entry in getattr(document, plural).items():
                entries.setdefault(name, entry)
    return merged


def resolve(document: Document, context: str = "") -> configs.Config:
    """Give the configuration of one context, by default the current one.

    :raises ConfigError: when the context, its cluster or its user is missing or malformed
    """
    name = context or document.current_context
    if not name:
        raise errors.ConfigError(
            f"kubeconfig has no current-context; contexts: {_known(document.contexts)}"
        )
    entry = _lookup(document.contexts, "context", name)
    where = f"{entry.path}: context {name!r}"
    cluster_name = _text(entry.value, "cluster", where)
    cluster = _lookup(document.clusters, "cluster", cluster_name)
    user_name = _text(entry.value, "user", where)
    # A context without a user is anonymous.
    user = _lookup(document.users, "user", user_name) if user_name else Entry({}, entry.path)
    where_cluster = f"{cluster.path}: cluster {cluster_name!r}"
    where_user = f"{user.path}: user {user_name!r}"
    if user.value.get("auth-provider"):
        raise errors.ConfigError(
            f"{where_user}: auth-provider was removed from Kubernetes; use an exec plugin"
        )
    return configs.Config(
        server=_text(cluster.value, "server", where_cluster),
        ca_data=_data(cluster.value, "certificate-authority-data", where_cluster),
        ca_file=_file(cluster, "certificate-authority", where_cluster),
        insecure=_flag(cluster.value, "insecure-skip-tls-verify", where_cluster),
        tls_server_name=_text(cluster.value, "tls-server-name", where_cluster),
        proxy_url=_text(cluster.value, "proxy-url", where_cluster),
        cert_data=_data(user.value, "client-certificate-data", where_user),
        cert_file=_file(user, "client-certificate", where_user),
        key_data=_data(user.value, "client-key-data", where_user),
        key_file=_file(user, "client-key", where_user),
        token=_text(user.value, "token", where_user),
        token_file=_file(user, "tokenFile", where_user),
        username=_text(user.value, "username", where_user),
        password=_text(user.value, "password", where_user),
        exec=_exec(user, cluster, where_user),
        namespace=_text(entry.value, "namespace", where) or "default",
        impersonate=_impersonate(user.value, where_user),
        context=name,
    )


def _exec(user: Entry, cluster: Entry, where: str) -> configs.ExecPlugin | None:
    plugin = user.value.get("exec")
    if plugin is None:
        return None
    where = f"{where}: exec"
    if not isinstance(plugin, dict):
        raise errors.ConfigError(f"{where} must be a mapping")
    version = _text(plugin, "apiVersion", where)
    if version not in _EXEC_VERSIONS:
        raise errors.ConfigError(
            f"{where}: apiVersion {version!r}: must be one of {', '.join(_EXEC_VERSIONS)}"
        )
    command = _text(plugin, "command", where)
    if not command:
        raise errors.ConfigError(f"{where} has no command")
    # A bare name is looked up on PATH, anything else is relative to the kubeconfig.
    if pathlib.PurePath(command).name != command:
        command = _beside(user, command)
    mode = _text(plugin, "interactiveMode", where) or "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise errors.ConfigError(
            f"{where}: interactiveMode {mode!r}: must be one of {', '.join(_INTERACTIVE_MODES)}"
        )
    return configs.ExecPlugin(
        api_version=version,
        command=command,
        args=tuple(str(arg) for arg in plugin.get("args") or ()),
        env=tuple(
            (_text(item, "name", where), _text(item, "value", where))
            for item in plugin.get("env") or ()
        ),
        install_hint=_text(plugin, "installHint", where),
        provide_cluster_info=_flag(plugin, "provideClusterInfo", where),
        interactive_mode=mode,
        cluster_config=next(
            (
                item.get("extension")
                for item in cluster.value.get("extensions") or ()
                if item.get("name") == _EXEC_EXTENSION
            ),
            None,
        ),
    )


def _impersonate(user: dict[str, Any], where: str) -> configs.Impersonate | None:
    name = _text(user, "as", where)
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    uid = _text(user, "as-uid", where)
    if not name:
        if groups or extra or uid:
            raise errors.ConfigError(f"{where}: as-groups, as-uid and as-user-extra need as")
        return None
    return configs.Impersonate(
        user=name,
        groups=tuple(groups),
        uid=uid,
        extra={key: tuple(values) for key, values in extra.items()},
    )


def _lookup(entries: dict[str, Entry], noun: str, name: str) -> Entry:
    try:
        return entries[name]
    except KeyError:
        raise errors.ConfigError(
            f"kubeconfig has no {noun} {name!r}; it has: {_known(entries)}"
        ) from None


def _known(entries: dict[str, Entry]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _text(mapping: dict[str, Any], key: str, where: str) -> str:
    value = mapping.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    # YAML reads a bare 1234 as a number; names and tokens may look like one.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise errors.ConfigError(f"{where}: {key} must be a string")


def _flag(mapping: dict[str, Any], key: str, where: str) -> bool:
    value = mapping.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise errors.ConfigError(f"{where}: {key} must be true or false")


def _data(mapping: dict[str, Any], key: str, where: str) -> bytes:
    text = _text(mapping, key, where)
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise errors.ConfigError(f"{where}: {key} is not base64") from None


def _file(entry: Entry, key: str, where: str) -> str:
    path = _text(entry.value, key, where)
    return _beside(entry, path) if path else ""


def _beside(entry: Entry, path: str) -> str:
    return str(pathlib.PurePath(entry.path).parent / path)
