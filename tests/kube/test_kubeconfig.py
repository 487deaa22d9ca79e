from __future__ import annotations

import base64
import textwrap

import pytest

from tenantry.kube import config, errors, kubeconfig

FULL = """
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: local
  cluster:
    server: https://127.0.0.1:6443/
    certificate-authority-data: Q0E=
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: x}
- name: files
  cluster: {server: "https://10.0.0.1", certificate-authority: pki/ca.crt}
users:
- name: cert
  user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}
- name: files
  user: {client-certificate: a.crt, client-key: /abs/a.key, tokenFile: token}
- name: token
  user:
    token: abc
    as: alice
    as-uid: u-1
    as-groups: [dev, ops]
    as-user-extra: {scope: [a, b]}
- name: 1234
  user: {username: u, password: p}
- name: exec
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [--for, 7]
      env: [{name: A, value: B}]
      installHint: install it
      provideClusterInfo: true
      interactiveMode: Never
- name: path
  user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: login}}
contexts:
- name: dev
  context: {cluster: local, user: cert, namespace: shop}
- name: files
  context: {cluster: files, user: files}
- name: token
  context: {cluster: local, user: token}
- name: number
  context: {cluster: local, user: 1234}
- name: exec
  context: {cluster: local, user: exec}
- name: path
  context: {cluster: local, user: path}
- name: anonymous
  context: {cluster: local}
- name: dangling
  context: {cluster: nowhere, user: cert}
"""


def parsed(text: str = FULL, path: str = "/home/a/.kube/config") -> kubeconfig.Document:
    return kubeconfig.parse(textwrap.dedent(text).encode(), path)


def test_current_context_with_inline_data() -> None:
    assert kubeconfig.resolve(parsed()) == config.Config(
        server="https://127.0.0.1:6443",
        ca_data=b"CA",
        cert_data=b"CERT",
        key_data=b"KEY",
        tls_server_name="kubernetes",
        proxy_url="http://proxy:3128",
        namespace="shop",
        context="dev",
    )


def test_file_names_are_relative_to_their_kubeconfig() -> None:
    resolved = kubeconfig.resolve(parsed(), "files")
    assert resolved.ca_file == "/home/a/.kube/pki/ca.crt"
    assert resolved.cert_file == "/home/a/.kube/a.crt"
    assert resolved.key_file == "/abs/a.key"
    assert resolved.token_file == "/home/a/.kube/token"
    assert resolved.namespace == "default"


def test_token_and_impersonation() -> None:
    resolved = kubeconfig.resolve(parsed(), "token")
    assert resolved.token == "abc"
    assert resolved.impersonate == config.Impersonate(
        user="alice", uid="u-1", groups=("dev", "ops"), extra={"scope": ("a", "b")}
    )
    assert "abc" not in repr(resolved)


def test_names_that_look_like_numbers() -> None:
    resolved = kubeconfig.resolve(parsed(), "number")
    assert (resolved.username, resolved.password) == ("u", "p")


def test_exec_plugin() -> None:
    assert kubeconfig.resolve(parsed(), "exec").exec == config.ExecPlugin(
        api_version="client.authentication.k8s.io/v1",
        command="/home/a/.kube/bin/login",
        args=("--for", "7"),
        env=(("A", "B"),),
        install_hint="install it",
        provide_cluster_info=True,
        interactive_mode="Never",
        cluster_config={"audience": "x"},
    )
    plugin = kubeconfig.resolve(parsed(), "path").exec
    assert plugin is not None
    assert (plugin.command, plugin.interactive_mode) == ("login", "IfAvailable")


def test_context_without_user_is_anonymous() -> None:
    resolved = kubeconfig.resolve(parsed(), "anonymous")
    assert (resolved.token, resolved.cert_data) == ("", b"")


def test_first_file_wins_entry_by_entry() -> None:
    first = parsed(
        """
        contexts: [{name: dev, context: {cluster: mine, user: cert}}]
        clusters: [{name: mine, cluster: {server: "https://mine", certificate-authority: ca}}]
        """,
        "/first/config",
    )
    merged = kubeconfig.merge([first, parsed()])
    assert merged.current_context == "dev"
    resolved = kubeconfig.resolve(merged)
    assert (resolved.server, resolved.ca_file) == ("https://mine", "/first/ca")
    # Entries are taken whole: the other file's namespace does not shine through.
    assert resolved.namespace == "default"
    assert resolved.cert_data == b"CERT"
    assert kubeconfig.resolve(merged, "files").ca_file == "/home/a/.kube/pki/ca.crt"


@pytest.mark.parametrize("text", ["", "# nothing", "{}", "clusters: null"])
def test_empty_files_are_empty(text: str) -> None:
    assert parsed(text) == kubeconfig.Document()
    with pytest.raises(errors.ConfigError, match="no current-context; contexts: none"):
        kubeconfig.resolve(parsed(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "/k: kubeconfig is not YAML: line 1, column 5: expected the node content, but"),
        ("[1]", "/k: kubeconfig must be a mapping"),
        ("clusters: {}x", "is not YAML"),
        ("clusters: {a: b}", "/k: clusters must be a list"),
        ("clusters: [a]", r"/k: clusters\[0\] must be a mapping"),
        ("clusters: [{cluster: {}}]", r"/k: clusters\[0\] has no name"),
        ("users: [{name: a, user: b}]", r"/k: users\[0\]\.user must be a mapping"),
        ("current-context: [a]", "current-context must be a string"),
    ],
)
def test_malformed_files_name_the_place(text: str, message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        parsed(text, "/k")


def test_yaml_objects_are_not_made() -> None:
    with pytest.raises(errors.ConfigError, match="not YAML"):
        parsed("a: !!python/object/apply:os.getcwd []")


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("none", "no context 'none'; it has: anonymous, dangling, dev"),
        ("dangling", "no cluster 'nowhere'; it has: files, local"),
    ],
)
def test_missing_entries_list_what_is_there(context: str, message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        kubeconfig.resolve(parsed(), context)


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ("{}", "{}", "server ''"),
        ("{server: 'ftp://x'}", "{}", "server 'ftp://x'"),
        ("{server: 'https://x', certificate-authority-data: '%%'}", "{}", "is not base64"),
        ("{server: 'https://x', insecure-skip-tls-verify: 'yes'}", "{}", "true or false"),
        (
            "{server: 'https://x', insecure-skip-tls-verify: true, certificate-authority: a}",
            "{}",
            "exclude each other",
        ),
        ("{server: 'https://x', proxy-url: 'socks5://p'}", "{}", "only http and https proxies"),
        ("{server: 'https://x'}", "{client-certificate: a}", "must be given together"),
        ("{server: 'https://x'}", "{auth-provider: {name: gcp}}", "use an exec plugin"),
        ("{server: 'https://x'}", "{as-groups: [a]}", "need as"),
        ("{server: 'https://x'}", "{token: [a]}", "token must be a string"),
        ("{server: 'https://x'}", "{exec: a}", "exec must be a mapping"),
        ("{server: 'https://x'}", "{exec: {command: a}}", "apiVersion ''"),
        (
            "{server: 'https://x'}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1}}",
            "no command",
        ),
        (
            "{server: 'https://x'}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: a,"
            " interactiveMode: Sometimes}}",
            "interactiveMode 'Sometimes'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_once(cluster: str, user: str, message: str) -> None:
    text = f"""
    current-context: c
    clusters: [{{name: c, cluster: {cluster}}}]
    users: [{{name: c, user: {user}}}]
    contexts: [{{name: c, context: {{cluster: c, user: c}}}}]
    """
    with pytest.raises(errors.ConfigError, match=message):
        kubeconfig.resolve(parsed(text))


def test_wrapped_base64_is_read() -> None:
    data = base64.encodebytes(b"x" * 100).decode()
    text = f"""
current-context: c
clusters:
- name: c
  cluster:
    server: https://x
    certificate-authority-data: |
      {data.replace(chr(10), chr(10) + "      ").strip()}
contexts: [{{name: c, context: {{cluster: c}}}}]
"""
    assert kubeconfig.resolve(parsed(text)).ca_data == b"x" * 100
