"""Other people's programs at the gateway, and proxies before it, with a real API server behind.

They are not ours to install: `TENANTRY_CLIENTS` names a folder with what there is of them,
docs/gateway.md says where each comes from. What is not there is skipped.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import harness
from .harness import USERS, Caller, World
from .test_modes import XFCC, gateway
from .test_workers import free_ports

pytestmark = [pytest.mark.plane, pytest.mark.long, pytest.mark.timeout(240)]

PYTHON = """
import json, sys
from kubernetes import client, config, watch
config.load_kube_config(sys.argv[1])
core, storage = client.CoreV1Api(), client.StorageV1Api()
def names(found): return sorted(item.metadata.name for item in found.items)
def watched(call, count):
    events = watch.Watch().stream(call, timeout_seconds=20)
    return sorted(next(events)["object"].metadata.name for _ in range(count))
nodes, classes = names(core.list_node()), names(storage.list_storage_class())
spaces = names(core.list_namespace())
print(json.dumps({
    "namespaces": spaces, "nodes": nodes, "classes": classes,
    "configmaps": sorted({i.metadata.namespace for i in core.list_config_map_for_all_namespaces().items}),
    "watched": {
        "namespaces": watched(core.list_namespace, len(spaces)),
        "nodes": watched(core.list_node, len(nodes)),
        "classes": watched(storage.list_storage_class, len(classes)),
    },
}))
"""


def program(name: str) -> Path:
    """Return where a program is, or skip."""
    folder = os.environ.get("TENANTRY_CLIENTS")
    found = Path(folder or "/nonexistent") / name
    if not folder or not found.exists():
        pytest.skip(f"TENANTRY_CLIENTS has no {name}")
    return found


def said(*words: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def is_exactly_alices(found: harness.Object) -> None:
    assert {"oil-1", "oil-2", "gas-1"} <= set(found["namespaces"])
    assert not [name for name in found["namespaces"] if not name.startswith(("oil-", "gas-"))]
    assert found["nodes"] == ["n-oil"]
    assert found["classes"] == ["oil-fast", "shared-1"]
    assert set(found["configmaps"]) <= set(found["namespaces"])
    for kind, names in found["watched"].items():
        assert names == found[kind]


def test_the_python_client(world: World, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(PYTHON)
    python = program("py/v/bin/python")
    is_exactly_alices(json.loads(said(python, script, world.kubeconfig("alice", USERS))))


def test_helm(world: World, tmp_path: Path) -> None:
    helm = program("bin/helm")
    chart = tmp_path / "demo"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 1.0.0\n")
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\ndata: {size: '{{ .Values.size }}'}\n"
    )
    config = f"--kubeconfig={world.kubeconfig('alice', USERS)}"

    def listed() -> list[tuple[str, str, str]]:
        found = json.loads(said(helm, config, "list", "-A", "-o", "json"))
        return [(one["name"], one["namespace"], one["revision"]) for one in found]

    where = ("-n", "oil-1")
    said(helm, config, "install", "demo", chart, *where, "--set=size=1", "--wait")
    try:
        assert listed() == [("demo", "oil-1", "1")]
        said(helm, config, "upgrade", "demo", chart, *where, "--set=size=2", "--wait")
        assert listed() == [("demo", "oil-1", "2")]
        data = world.plane.run("get", "configmap", "demo", *where, "-o", "jsonpath={.data.size}")
        assert data.stdout == "2"
    finally:
        said(helm, config, "uninstall", "demo", *where)
    done = subprocess.run(
        [str(helm), config, "install", "demo", str(chart), "-n", "wind-1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "forbidden" in done.stderr


# Proxies before it.


@contextlib.contextmanager
def running(port: int, log: Path, *words: str | Path, **more: str) -> Iterator[str]:
    """Run a proxy; give its address once it listens."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(word) for word in words], stdout=out, stderr=out, env={**os.environ, **more}
        )
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def works_through(world: World, address: str, folder: Path) -> None:
    """Do what needs each part of a proxy: lists, a write, a watch, a WebSocket; and nobody."""
    path = folder / "alice.yaml"
    text = world.kubeconfig("alice", USERS).read_text()
    path.write_text(text.replace(world.server, address))
    assert set(world.names(path, "nodes")) == {"n-oil"}
    shown = world.names(path, "namespaces")
    assert "oil-1" in shown
    assert "wind-1" not in shown
    assert "wind-1" not in world.run(path, "get", "secrets", "-n", "wind-1", check=False).stdout
    alice = Caller(path)
    with alice.watching("/api/v1/configmaps?watch=true") as watch:
        world.run(path, "create", "configmap", "proxied", "-n", "oil-1")
        watch.until(("ADDED", "proxied"))
        world.run(path, "delete", "configmap", "proxied", "-n", "oil-1")
        watch.until(("DELETED", "proxied"))
    with alice.socket("/api/v1/nodes?watch=true") as opened:
        assert opened.code == 101
        assert json.loads(next(opened.frames())[1])["object"]["metadata"]["name"] == "n-oil"
    alice.close()
    place = address.removeprefix("https://")
    connection = http.client.HTTPSConnection(place, context=world.trusting, timeout=20)
    # Whatever the header says, a certificate must have been shown.
    for claims in ({}, {"X-Forwarded-Client-Cert": "Cert=x"}):
        connection.request("GET", "/api/v1/namespaces", headers=claims)
        answer = connection.getresponse()
        answer.read()
        assert answer.status in {400, 401}
    connection.close()


@pytest.fixture
def believing(world: World, tmp_path: Path) -> Iterator[int]:
    """Run a gateway that believes proxies of this machine; give its port."""
    with gateway(world, tmp_path, *XFCC, "--trusted-proxy-cidrs=127.0.0.0/8") as port:
        yield port


def pem(world: World) -> tuple[Path, Path, Path]:
    """Return a proxy's certificate, its key, and the authority of clients."""
    pki = world.plane.platform.paths.pki
    return pki / "gateway.crt", pki / "gateway.key", pki / "ca.crt"


def test_behind_haproxy_that_looks_at_nothing(world: World, tmp_path: Path) -> None:
    haproxy = program("deb/root/usr/sbin/haproxy")
    port = free_ports()
    config = tmp_path / "haproxy.cfg"
    config.write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n"
        f"frontend k8s\n bind 127.0.0.1:{port}\n default_backend gateway\n"
        f"backend gateway\n server g1 {world.server.removeprefix('https://')}\n"
    )
    libraries = str(program("deb/root/usr/lib/x86_64-linux-gnu"))
    with running(
        port, tmp_path / "out", haproxy, "-db", "-f", config, LD_LIBRARY_PATH=libraries
    ) as address:
        works_through(world, address, tmp_path)


def test_behind_nginx_that_ends_tls(world: World, tmp_path: Path, believing: int) -> None:
    nginx = program("deb/root/usr/sbin/nginx")
    cert, key, ca = pem(world)
    port = free_ports()
    config = tmp_path / "nginx.conf"
    config.write_text(f"""
daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
  uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
  map $http_upgrade $upgrading {{ default upgrade; '' ''; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {cert}; ssl_certificate_key {key};
    ssl_client_certificate {ca}; ssl_verify_client optional;
    client_max_body_size 0;
    location / {{
      proxy_pass http://127.0.0.1:{believing};
      proxy_http_version 1.1;
      proxy_buffering off; proxy_request_buffering off;
      proxy_read_timeout 1h;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $upgrading;
      proxy_set_header X-Forwarded-Client-Cert "Cert=\\"$ssl_client_escaped_cert\\"";
    }}
  }}
}}
""")
    with running(port, tmp_path / "out", nginx, "-c", config, "-p", tmp_path) as address:
        works_through(world, address, tmp_path)


def test_behind_envoy_that_ends_tls(world: World, tmp_path: Path, believing: int) -> None:
    envoy = program("py/v/lib/python3.11/site-packages/envoy/_bin/envoy")
    cert, key, ca = pem(world)
    port = free_ports()
    v3 = "type.googleapis.com/envoy.extensions"
    manager = {
        "@type": f"{v3}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "k8s",
        "codec_type": "HTTP1",
        "forward_client_cert_details": "SANITIZE_SET",
        "set_current_client_cert_details": {"cert": True},
        "upgrade_configs": [{"upgrade_type": "websocket"}, {"upgrade_type": "SPDY/3.1"}],
        "stream_idle_timeout": "0s",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "gateway", "timeout": "0s"},
                        }
                    ],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": f"{v3}.filters.http.router.v3.Router"},
            }
        ],
    }
    secure = {
        "@type": f"{v3}.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {
            "tls_certificates": [
                {
                    "certificate_chain": {"filename": str(cert)},
                    "private_key": {"filename": str(key)},
                }
            ],
            "validation_context": {"trusted_ca": {"filename": str(ca)}},
        },
    }

    def at(number: int) -> harness.Object:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    endpoint = {"endpoint": {"address": at(believing)}}
    config = tmp_path / "envoy.json"
    config.write_text(
        json.dumps(
            {
                "static_resources": {
                    "listeners": [
                        {
                            "address": at(port),
                            "filter_chains": [
                                {
                                    "filters": [{"name": "http", "typed_config": manager}],
                                    "transport_socket": {"name": "tls", "typed_config": secure},
                                }
                            ],
                        }
                    ],
                    "clusters": [
                        {
                            "name": "gateway",
                            "load_assignment": {
                                "cluster_name": "gateway",
                                "endpoints": [{"lb_endpoints": [endpoint]}],
                            },
                        }
                    ],
                }
            }
        )
    )
    words = ("-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
    with running(port, tmp_path / "out", envoy, *words) as address:
        works_through(world, address, tmp_path)
