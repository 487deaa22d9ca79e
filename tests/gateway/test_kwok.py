"""exec, cp, attach, logs and port-forward with real kubectl, over WebSocket and SPDY.

The kubelet is kwok's, whose exec runs on this machine: as nobody, for one node, and only here.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tenantry.local import binaries, plan, progress
from tenantry.pki import authority

from .harness import USERS, World, eventually

pytestmark = [
    pytest.mark.plane,
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody"),
]

NOBODY = 65534
PROTOCOLS = {"websocket": "true", "spdy": "false"}


def free_port() -> int:
    with socket.socket() as trying:
        trying.bind(("127.0.0.1", 0))
        port: int = trying.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def cluster_wide(kind: str, **spec: object) -> str:
    return json.dumps(
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": kind.lower()},
            "spec": spec,
        }
    )


def line(text: str) -> str:
    """Write a line of a log as container runtimes do."""
    return f"2026-01-01T00:00:00.000000000Z stdout F {text}\n"


class Kubelet:
    """kwok as the kubelet of one node, without any right on this machine."""

    def __init__(self, world: World, folder: pathlib.Path, echo: int) -> None:
        self.port = free_port()
        self.log = folder / "container.log"
        self.log.write_text(line("first"))
        config = folder / "kwok.yaml"
        config.write_text(
            "\n---\n".join(
                (
                    # Without any it does not start; what it would say of nodes is not tested here.
                    cluster_wide(
                        "Stage",
                        resourceRef={"apiGroup": "v1", "kind": "Node"},
                        selector={"matchLabels": {"none": "none"}},
                        next={"delete": False},
                    ),
                    cluster_wide("ClusterExec", execs=[{"local": {"workDir": str(folder)}}]),
                    cluster_wide("ClusterLogs", logs=[{"logsFile": str(self.log), "follow": True}]),
                    cluster_wide("ClusterAttach", attaches=[{"logsFile": str(self.log)}]),
                    cluster_wide(
                        "ClusterPortForward",
                        forwards=[{"target": {"address": "127.0.0.1", "port": echo}}],
                    ),
                )
            )
        )
        issued = authority.Authority.create("kubelet", time.time()).issue_server(
            ["127.0.0.1"], time.time()
        )
        (folder / "tls.crt").write_bytes(issued.cert)
        (folder / "tls.key").write_bytes(issued.key)
        shutil.copy(world.plane.admin, folder / "kubeconfig")
        for path in folder.iterdir():
            os.chown(path, NOBODY, NOBODY)
        os.chown(folder, NOBODY, NOBODY)
        given = binaries.resolve(
            [plan.KWOK], environ=os.environ, report=progress.Silent(), make=False
        )
        shutil.copy(given[plan.KWOK], folder / plan.KWOK)
        (folder / plan.KWOK).chmod(0o755)
        self._output = (folder / "kwok.log").open("wb")
        self._process = subprocess.Popen(
            [
                str(folder / plan.KWOK), f"--config={config}",
                f"--kubeconfig={folder / 'kubeconfig'}",
                "--manage-single-node=nobody",
                f"--server-address=127.0.0.1:{self.port}",
                f"--tls-cert-file={folder / 'tls.crt'}",
                f"--tls-private-key-file={folder / 'tls.key'}",
            ],
            stdout=self._output, stderr=self._output, cwd=folder, env={"HOME": str(folder), "PATH": os.defpath},
            user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()


class Echo:
    """Answers what it hears, for those who come through a port-forward."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._process = subprocess.Popen(
            [
                "python3", "-c",
                "import socket, threading, sys\n"
                "s = socket.socket(fileno=int(sys.argv[1]))\n"
                "def serve(c):\n"
                "    while data := c.recv(65536): c.sendall(data)\n"
                "while True: threading.Thread(target=serve, args=s.accept()[:1]).start()",
                str(self._listening.fileno()),
            ],
            pass_fds=[self._listening.fileno()],
        )  # fmt: skip

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listening.close()


@pytest.fixture(scope="module")
def kubelet(world: World) -> Iterator[Kubelet]:
    # Nobody may look into the folders of tests.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tenantry-kwok-"))
    folder.chmod(0o755)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-kwok"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "box", "namespace": "oil-1"},
        "spec": {
            "nodeName": "n-kwok",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "none", "ports": [{"containerPort": 80}]}],
        },
    }
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        echo = Echo()
        stack.callback(echo.close)
        found = Kubelet(world, folder, echo.port)
        stack.callback(found.close)
        world.plane.run("create", "-f", "-", stdin=f"{json.dumps(node)}\n---\n{json.dumps(pod)}")
        endpoints = {"kubeletEndpoint": {"Port": found.port}}
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        patch = ("--subresource=status", "--type=merge", "-p")
        status: dict[str, Any] = {"addresses": addresses, "daemonEndpoints": endpoints}
        world.plane.run("patch", "node", "n-kwok", *patch, json.dumps({"status": status}))
        status = {"phase": "Running"}
        pod_patch = ("pod", "box", "-n", "oil-1", *patch)
        world.plane.run("patch", *pod_patch, json.dumps({"status": status}))
        try:
            eventually(lambda: listens(found.port))
        except AssertionError:
            raise AssertionError((folder / "kwok.log").read_text()[-3000:]) from None
        yield found
        world.plane.run("delete", "pod", "box", "-n", "oil-1", "--force", "--grace-period=0")
        world.plane.run("delete", "node", "n-kwok")


@pytest.fixture(params=list(PROTOCOLS))
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    """An environment in which kubectl speaks one of the protocols."""
    wanted = PROTOCOLS[request.param]
    return {
        **os.environ,
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": wanted,
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": wanted,
    }


def kubectl(world: World, *args: str) -> list[str]:
    path = world.kubeconfig("alice", USERS)
    return [str(world.plane.kubectl), f"--kubeconfig={path}", "-n", "oil-1", *args]


def _echoes(world: World, env: dict[str, str], size: int) -> None:
    """Send, and have the program end by itself once it has said all.

    Nothing is on its way to it then: where something is, the API server may cut off the end of
    the output by itself. What the gateway does in that case is tested in httpproxy/test_wire.
    """
    whole = bytes(range(256)) * (size // 256)
    running = subprocess.Popen(
        # kwok does not pass on that the input has ended.
        kubectl(world, "exec", "-i", "box", "--", "head", "-c", str(len(whole))),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None

    def send() -> None:
        assert running.stdin is not None
        running.stdin.write(whole)
        running.stdin.flush()

    sending = threading.Thread(target=send)
    sending.start()
    try:
        told = running.stdout.read()
        assert running.wait(60) == 0
        assert (len(told), running.stderr.read()) == (len(whole), b"")
        assert told == whole
    finally:
        running.kill()
        sending.join()
        running.communicate()


def test_exec_passes_much(world: World, kubelet: Kubelet, env: dict[str, str]) -> None:
    assert kubelet.port
    _echoes(world, env, 512_000)


def test_exec_passes_bytes_both_ways_and_the_exit_code(
    world: World, kubelet: Kubelet, env: dict[str, str]
) -> None:
    assert kubelet.port
    _echoes(world, env, 16 * 1024)
    done = subprocess.run(
        kubectl(world, "exec", "box", "--", "sh", "-c", "id -u; echo oh >&2; exit 7"),
        capture_output=True, timeout=60, env=env, check=False,
    )  # fmt: skip
    # kwok tells the exit code in words only.
    assert (done.returncode != 0, done.stdout) == (True, b"%d\n" % NOBODY)
    assert done.stderr.startswith(b"oh\n")
    assert b"exit status 7" in done.stderr


def test_cp_from_a_pod(
    world: World, kubelet: Kubelet, env: dict[str, str], tmp_path: pathlib.Path
) -> None:
    """The other way cannot be tried: tar there waits for an end that kwok does not pass on."""
    whole = os.urandom(300_000)
    there = kubelet.log.parent / "copied"
    there.write_bytes(whole)
    done = subprocess.run(
        kubectl(world, "cp", f"box:{there}", str(tmp_path / "down")),
        capture_output=True, text=True, timeout=60, env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "down").read_bytes() == whole


@pytest.mark.parametrize("verb", ["logs -f", "attach"])
def test_output_is_followed(world: World, kubelet: Kubelet, env: dict[str, str], verb: str) -> None:
    kubelet.log.write_text(line("first"))
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(0.2):
            with kubelet.log.open("a") as log:
                log.write(line("more"))

    writing = threading.Thread(target=go_on)
    following = subprocess.Popen(
        kubectl(world, *verb.split(), "box"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=env,
    )  # fmt: skip
    try:
        assert following.stdout is not None
        if verb == "logs -f":
            assert following.stdout.readline() == "first\n"
        # It is there while the log goes on.
        writing.start()
        while (told := following.stdout.readline()) == "first\n":
            pass
        assert told == "more\n"
        assert following.stdout.readline() == "more\n"
    finally:
        over.set()
        writing.join()
        following.kill()
        following.communicate()


def test_port_forward(world: World, kubelet: Kubelet, env: dict[str, str]) -> None:
    assert kubelet.port
    forwarding = subprocess.Popen(
        kubectl(world, "port-forward", "pod/box", ":80"), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=env,
    )  # fmt: skip
    try:
        assert forwarding.stdout is not None
        told = forwarding.stdout.readline()
        assert told.startswith("Forwarding from 127.0.0.1:"), told
        port = int(told.split(":")[1].split()[0])
        for size in (1, 200_000):
            with socket.create_connection(("127.0.0.1", port), 20) as connection:
                connection.sendall(b"x" * size)
                heard = b""
                while len(heard) < size:
                    piece = connection.recv(65536)
                    assert piece
                    heard += piece
                assert heard == b"x" * size
    finally:
        forwarding.kill()
        forwarding.communicate()


@pytest.mark.parametrize("verb", ["exec box -- id", "attach box", "port-forward pod/box :80"])
def test_strangers_get_no_tunnel(
    world: World, kubelet: Kubelet, env: dict[str, str], verb: str
) -> None:
    assert kubelet.port
    bob = world.kubeconfig("bob", USERS, "wind-owners")
    done = subprocess.run(
        [str(world.plane.kubectl), f"--kubeconfig={bob}", "-n", "oil-1", *verb.split()],
        capture_output=True, text=True, timeout=60, env=env, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "forbidden" in done.stderr.lower()
    assert done.stdout == ""
