from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest

from tenantry.kube import config, errors, execplugin

V1 = "client.authentication.k8s.io/v1"
SERVER = config.Config(server="https://x", ca_data=b"CA", tls_server_name="k")


def plugin(command: str = "login", *args: str, **fields: Any) -> config.ExecPlugin:
    return config.ExecPlugin(api_version=V1, command=command, args=args, **fields)


def credential(**status: str) -> bytes:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}).encode()


def test_plugin_is_told_about_the_cluster_only_if_it_wants() -> None:
    env = execplugin.environment(SERVER, plugin(env=(("A", "B"),)), {"P": "Q"}, interactive=False)
    assert (env["A"], env["P"]) == ("B", "Q")
    assert json.loads(env["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    wanting = plugin(provide_cluster_info=True, cluster_config={"a": 1})
    env = execplugin.environment(SERVER, wanting, {}, interactive=True)
    assert json.loads(env["KUBERNETES_EXEC_INFO"])["spec"] == {
        "interactive": True,
        "cluster": {
            "server": "https://x",
            "certificate-authority-data": "Q0E=",
            "tls-server-name": "k",
            "config": {"a": 1},
        },
    }
    insecure = config.Config(server="https://x", insecure=True, proxy_url="http://p")
    env = execplugin.environment(insecure, wanting, {}, interactive=True)
    cluster = json.loads(env["KUBERNETES_EXEC_INFO"])["spec"]["cluster"]
    assert cluster["insecure-skip-tls-verify"] is True
    assert cluster["proxy-url"] == "http://p"


def test_token_and_expiry_are_read() -> None:
    answer = execplugin.parse(
        credential(token="t", expirationTimestamp="2026-01-01T00:00:00Z"), plugin()
    )
    assert (answer.token, answer.expires) == ("t", 1767225600.0)
    assert "'t'" not in repr(answer)
    pair = execplugin.parse(credential(clientCertificateData="C", clientKeyData="K"), plugin())
    assert (pair.cert, pair.key, pair.expires) == (b"C", b"K", None)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "no ExecCredential"),
        (b"token", "no ExecCredential"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "answered v1 Pod, expected"),
        (credential().replace(b"/v1", b"/v1beta1"), "answered .*v1beta1 ExecCredential"),
        (credential(), "neither a token nor a client certificate"),
        (credential(clientKeyData="K"), "must come together"),
        (credential(token="t", expirationTimestamp="soon"), "'soon' is no RFC 3339 time"),
    ],
)
def test_unusable_answers(output: bytes, message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        execplugin.parse(output, plugin())


def script(tmp_path: pathlib.Path, text: str) -> config.ExecPlugin:
    path = tmp_path / "plugin.py"
    path.write_text(text)
    return plugin(sys.executable, str(path))


async def test_plugin_is_run(tmp_path: pathlib.Path) -> None:
    runnable = script(
        tmp_path,
        "import json, os\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "info['status'] = {'token': 'from-plugin'}\n"
        "print(json.dumps(info))\n",
    )
    assert (await execplugin.run(SERVER, runnable)).token == "from-plugin"


async def test_failing_plugin_is_quoted(tmp_path: pathlib.Path) -> None:
    failing = script(tmp_path, "import sys\nsys.exit('log in first')\n")
    with pytest.raises(errors.ConfigError, match="exit code 1: log in first"):
        await execplugin.run(SERVER, failing)


async def test_slow_plugin_is_killed(tmp_path: pathlib.Path) -> None:
    slow = script(tmp_path, "import time\ntime.sleep(60)\n")
    with pytest.raises(errors.ConfigError, match=r"no answer within 0\.2 s"):
        await execplugin.run(SERVER, slow, timeout=0.2)


async def test_missing_plugin_hints_at_its_installation() -> None:
    missing = plugin("no-such-login-plugin", install_hint="brew install it")
    with pytest.raises(errors.ConfigError, match="No such file or directory; brew install it"):
        await execplugin.run(SERVER, missing)


async def test_plugin_that_must_ask_needs_a_terminal() -> None:
    with pytest.raises(errors.ConfigError, match="needs a terminal"):
        await execplugin.run(SERVER, plugin(interactive_mode="Always"))
