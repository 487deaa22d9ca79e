from __future__ import annotations

import pathlib

import pytest

from tenantry.kube import config, errors

MINIMAL = """
current-context: {name}
clusters: [{{name: {name}, cluster: {{server: "{server}"}}}}]
contexts: [{{name: {name}, context: {{cluster: {name}}}}}]
"""


def write(path: pathlib.Path, name: str, server: str = "https://api.example.com") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MINIMAL.format(name=name, server=server))
    return path


def test_explicit_file_and_context(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "k", "one")
    assert config.load(path, environ={}).context == "one"
    with pytest.raises(errors.ConfigError, match="no context 'two'"):
        config.load(path, "two", environ={})


def test_variable_merges_several_files(tmp_path: pathlib.Path) -> None:
    one, two = write(tmp_path / "1", "one"), write(tmp_path / "2", "two")
    env = {"KUBECONFIG": f"{tmp_path / 'missing'}:{one}::{two}:{one}"}
    assert config.load(environ=env).context == "one"
    assert config.load(context="two", environ=env).context == "two"


def test_home_is_the_last_resort(tmp_path: pathlib.Path) -> None:
    write(tmp_path / ".kube" / "config", "home")
    assert config.load(environ={"HOME": str(tmp_path)}).context == "home"


def test_missing_and_unreadable_files_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigError, match=r"none: kubeconfig does not exist"):
        config.load(tmp_path / "none", environ={})
    with pytest.raises(errors.ConfigError, match=r"none of .*a, .*b exists"):
        config.load(environ={"KUBECONFIG": f"{tmp_path / 'a'}:{tmp_path / 'b'}"})
    with pytest.raises(errors.ConfigError, match="cannot be read: Is a directory"):
        config.load(tmp_path, environ={})


def pod(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("ca")
    (tmp_path / "namespace").write_text("shop\n")
    return tmp_path


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_in_cluster_keeps_file_names(tmp_path: pathlib.Path) -> None:
    found = config.in_cluster(environ=IN_POD, directory=pod(tmp_path))
    assert found.server == "https://10.96.0.1:443"
    assert (found.ca_file, found.token_file) == (
        str(tmp_path / "ca.crt"),
        str(tmp_path / "token"),
    )
    assert (found.namespace, found.context) == ("shop", "in-cluster")
    ipv6 = config.in_cluster(
        environ={**IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, directory=tmp_path
    )
    assert ipv6.server == "https://[fd00::1]:443"
    (tmp_path / "namespace").unlink()
    assert config.in_cluster(environ=IN_POD, directory=tmp_path).namespace == "default"


def test_in_cluster_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigError, match="not in a cluster"):
        config.in_cluster(environ={}, directory=tmp_path)
    with pytest.raises(errors.ConfigError, match="token: missing; is a service account mounted"):
        config.in_cluster(environ=IN_POD, directory=tmp_path)


def test_detect_prefers_the_variable_then_the_pod(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "k", "named")
    assert config.detect(environ={**IN_POD, "KUBECONFIG": str(path)}).context == "named"
    with pytest.raises(errors.ConfigError, match="service account"):
        config.detect(environ={**IN_POD, "HOME": str(tmp_path)})
    write(tmp_path / ".kube" / "config", "home")
    assert config.detect(environ={"HOME": str(tmp_path)}).context == "home"


@pytest.mark.parametrize(
    ("server", "proxied"),
    [
        ("https://api.example.com", True),
        ("https://api.internal", False),
        ("https://127.0.0.1:6443", False),
        ("https://[::1]:6443", False),
        ("https://localhost:6443", False),
        ("http://api.example.com", False),
    ],
)
def test_proxy_of_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, server: str, proxied: bool
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", ".internal")
    loaded = config.load(write(tmp_path / "k", "one", server), environ={})
    assert loaded.proxy_url == ("http://proxy:3128" if proxied else "")


def test_server_keeps_its_path_without_the_slash() -> None:
    assert config.Config(server="https://host/k8s/clusters/c-1/").server.endswith("/c-1")
    for server in ("", "host:6443", "https://", "unix:///x"):
        with pytest.raises(errors.ConfigError, match="must be an address"):
            config.Config(server=server)
