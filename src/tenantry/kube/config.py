"""Which API server, and as whom: read from kubeconfig files or from inside a pod.

Reading files and the environment happens here; what they mean is `kubeconfig` (pure). Material
that may change while we run (CA, client certificate, token) is kept as a file name where it came
as one, and read again by `credentials`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib import parse

from tenantry.kube import errors

if TYPE_CHECKING:
    from tenantry.kube import kubeconfig as kubeconfig_module

#: Where kubelet mounts a pod's identity.
SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Impersonate:
    """Act as somebody else; needs the `impersonate` verb."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecPlugin:
    """A command that prints an ExecCredential (`client.authentication.k8s.io`)."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    #: Shown when the command does not exist.
    install_hint: str = ""
    #: Whether the plugin is told which cluster it is for.
    provide_cluster_info: bool = False
    #: Never, IfAvailable or Always.
    interactive_mode: str = "IfAvailable"
    #: `extensions["client.authentication.k8s.io/exec"]` of the cluster, handed to the plugin.
    cluster_config: object = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """One server and one identity.

    `*_data` wins over the file of the same name; `token_file` over `token`.
    """

    #: Base address, without a slash at the end; may have a path.
    server: str
    ca_data: bytes = b""
    ca_file: str = ""
    cert_data: bytes = dataclasses.field(default=b"", repr=False)
    cert_file: str = ""
    key_data: bytes = dataclasses.field(default=b"", repr=False)
    key_file: str = ""
    token: str = dataclasses.field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = dataclasses.field(default="", repr=False)
    exec: ExecPlugin | None = None
    #: Name the certificate is checked against, when it is not the server's host.
    tls_server_name: str = ""
    #: Do not check the server's certificate at all.
    insecure: bool = False
    #: An http:// or https:// proxy; "" for none.
    proxy_url: str = ""
    #: Namespace that commands use when none is given.
    namespace: str = "default"
    impersonate: Impersonate | None = None
    #: Name of the kubeconfig context, for messages.
    context: str = ""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, with a worse message."""
        address = parse.urlsplit(self.server)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise errors.ConfigError(
                f"server {self.server!r}: must be an address such as https://host:6443"
            )
        if self.server.endswith("/"):
            object.__setattr__(self, "server", self.server.rstrip("/"))
        if self.insecure and (self.ca_data or self.ca_file):
            raise errors.ConfigError(
                "certificate-authority and insecure-skip-tls-verify exclude each other"
            )
        if bool(self.cert_data or self.cert_file) != bool(self.key_data or self.key_file):
            raise errors.ConfigError("client-certificate and client-key must be given together")
        if self.proxy_url and parse.urlsplit(self.proxy_url).scheme not in {"http", "https"}:
            raise errors.ConfigError(
                f"proxy-url {self.proxy_url!r}: only http and https proxies are supported"
            )


def load(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Read kubeconfig files as kubectl does: the given one, else `$KUBECONFIG`, else ~/.kube/config.

    `$KUBECONFIG` may name several files, which are merged; the first to set a value wins, and
    missing ones are skipped as long as one exists.

    :param context: name of the context, else the files' `current-context`
    :raises ConfigError: naming the file, when something is missing, unreadable or does not fit
    """
    from tenantry.kube import kubeconfig as kubeconfigs

    env = os.environ if environ is None else environ
    paths = _paths(kubeconfig, env)
    documents = []
    for path in paths:
        document = _read(path, required=len(paths) == 1)
        if document is not None:
            documents.append(document)
    if not documents:
        raise errors.ConfigError(f"none of {', '.join(map(str, paths))} exists")
    config = kubeconfigs.resolve(kubeconfigs.merge(documents), context or "")
    return _with_proxy(config)


def in_cluster(
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] = SERVICE_ACCOUNT_DIRECTORY,
) -> Config:
    """Give the configuration of the pod we run in; token and CA are read again while we run.

    :raises ConfigError: when this is no pod, or it has no service account mounted
    """
    env = os.environ if environ is None else environ
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise errors.ConfigError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
        )
    root = pathlib.Path(directory)
    for name in ("token", "ca.crt"):
        if not (root / name).is_file():
            raise errors.ConfigError(f"{root / name}: missing; is a service account mounted?")
    try:
        namespace = (root / "namespace").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        namespace = ""
    return Config(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_file=str(root / "ca.crt"),
        token_file=str(root / "token"),
        namespace=namespace or "default",
        context="in-cluster",
    )


def detect(*, environ: Mapping[str, str] | None = None) -> Config:
    """Find the configuration: `$KUBECONFIG`, else the pod we run in, else ~/.kube/config."""
    env = os.environ if environ is None else environ
    if not env.get("KUBECONFIG") and env.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ=env)
    return load(environ=env)


def _paths(given: str | os.PathLike[str] | None, env: Mapping[str, str]) -> list[pathlib.Path]:
    if given is not None:
        return [pathlib.Path(given).expanduser()]
    listed = [pathlib.Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    # The same file twice is merged once.
    return list(dict.fromkeys(listed)) or [
        pathlib.Path(env.get("HOME", "~"), ".kube", "config").expanduser()
    ]


def _read(path: pathlib.Path, *, required: bool) -> kubeconfig_module.Document | None:
    from tenantry.kube import kubeconfig as kubeconfigs

    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if required:
            raise errors.ConfigError(f"{path}: kubeconfig does not exist") from None
        return None
    except OSError as error:
        raise errors.ConfigError(f"{path}: kubeconfig cannot be read: {error.strerror}") from error
    return kubeconfigs.parse(text, str(path.absolute()))


def _with_proxy(config: Config) -> Config:
    """Fall back to the environment's proxy, never for the machine itself (as Go does)."""
    from urllib import request  # a tenth of a second to import, which commands would notice

    address = parse.urlsplit(config.server)
    host = address.hostname or ""
    if config.proxy_url or _is_loopback(host) or request.proxy_bypass(host):
        return config
    proxy = request.getproxies().get(address.scheme, "")
    return dataclasses.replace(config, proxy_url=proxy) if proxy else config


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
