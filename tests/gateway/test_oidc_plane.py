"""An issuer, an API server that believes it, and a gateway that verifies its tokens itself."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import pathlib
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jwk
from joserfc import jwt as signing

from tenantry.core import clock
from tenantry.gateway import issuer, oidc
from tenantry.local import plan

from . import harness, served
from .harness import USERS, World, eventually
from .test_kwok import free_port
from .test_modes import gateway, namespaces

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]


class Issuer:
    """Serves its keys, and signs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.keys: list[Any] = [jwk.RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        self.claims_to_be = ""
        self._served = served.Served(folder, lambda target: (200, self.document(target)))
        self.ca = self._served.ca
        self.url = f"https://127.0.0.1:{self._served.port}"

    def document(self, path: str) -> dict[str, Any]:
        if path.endswith("/openid-configuration"):
            return {
                "issuer": self.claims_to_be or self.url,
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def rotate(self, name: str) -> None:
        self.keys = [jwk.RSAKey.generate_key(2048, {"kid": name, "use": "sig"})]

    def token(self, user: str, *groups: str, **claims: Any) -> str:
        key = self.keys[-1]
        body = {
            "iss": self.url, "sub": user, "aud": "kubernetes", "exp": int(time.time()) + 600,
            "iat": int(time.time()), "groups": list(groups), **claims,
        }  # fmt: skip
        return signing.encode({"alg": "RS256", "kid": key.kid}, body, key)

    def close(self) -> None:
        self._served.close()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    made = Issuer(tmp_path_factory.mktemp("issuer"))
    yield made
    made.close()


def flags(found: Issuer) -> list[str]:
    return [
        f"--oidc-issuer-url={found.url}", "--oidc-client-id=kubernetes",
        "--oidc-username-prefix=-", "--oidc-groups-claim=groups", f"--oidc-ca-file={found.ca}",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def believing(
    world: World, found: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pathlib.Path]:
    """Start another API server on the same etcd; give a kubeconfig of the gateway for it."""
    folder = tmp_path_factory.mktemp("believing")
    pid = world.plane.pid(plan.API_SERVER)
    running = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    port = free_port()
    kept = [word for word in running if not word.startswith(("--secure-port", "--audit-log-path"))]
    argv = [*kept, f"--secure-port={port}", f"--audit-log-path={folder / 'audit'}", *flags(found)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder)
    try:
        context = ssl._create_unverified_context()

        def ready() -> bool:
            with contextlib.suppress(OSError):
                url = f"https://127.0.0.1:{port}/readyz"
                with urllib.request.urlopen(url, timeout=5, context=context) as got:
                    return bool(got.status == 200)
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            return False

        eventually(ready, 60)
        text = world.plane.platform.paths.kubeconfig("gateway").read_text()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(text.replace(world.plane.server, f"https://127.0.0.1:{port}"))
        yield kubeconfig
    finally:
        process.kill()
        process.wait()


def questions(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/metrics", timeout=10) as got:
        for line in got.read().decode().splitlines():
            if line.startswith("gateway_identity_questions "):
                return int(float(line.split()[1]))
    raise AssertionError("no such metric")


@pytest.fixture(scope="module")
def verifying(
    world: World,
    found: Issuer,
    believing: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[int]:
    """Run a gateway that knows the issuer; give its port."""
    options = ("--enable-ssl=false", *flags(found))
    folder = tmp_path_factory.mktemp("verifying")
    with gateway(world, folder, *options, kubeconfig=believing) as port:
        yield port


def test_a_watch_ends_with_its_token(found: Issuer, verifying: int) -> None:
    """The API server lets it go on for as long as the connection lasts."""
    ends = int(time.time()) + 5
    token = found.token("alice", USERS, exp=ends)
    targets = (
        "/api/v1/namespaces?watch=true",
        "/api/v1/namespaces/oil-1/configmaps?watch=true",
        "/api/v1/configmaps?watch=true",
    )
    with contextlib.ExitStack() as stack:
        opened = []
        for target in targets:
            connection = http.client.HTTPConnection("127.0.0.1", verifying, timeout=30)
            stack.callback(connection.close)
            connection.request("GET", target, headers={"Authorization": f"Bearer {token}"})
            watch = harness.Watch(connection.getresponse())
            assert watch.code == 200
            assert watch.next() is not None
            opened.append(watch)
        for watch in opened:
            while watch.next() is not None:
                pass
            assert ends - 1 < time.time() < ends + 10
    assert namespaces(f"http://127.0.0.1:{verifying}", Authorization=f"Bearer {token}")[0] == 401


def test_tokens_are_verified_here_and_by_the_api_server_alike(
    found: Issuer, verifying: int
) -> None:
    port = verifying
    url = f"http://127.0.0.1:{port}"

    def listed(token: str) -> tuple[int, list[str]]:
        return namespaces(url, Authorization=f"Bearer {token}")

    # The keys come in the background; until then the API server is asked.
    def told_here() -> bool:
        before = questions(port)
        listed(found.token("alice", USERS, jti=str(time.time())))
        return questions(port) == before

    eventually(told_here)
    before = questions(port)
    code, names = listed(found.token("alice", USERS))
    assert (code, {"oil-1", "gas-1"} <= set(names), "wind-1" in names) == (200, True, False)
    # A group's owner, and somebody whom the gateway does not filter for.
    assert listed(found.token("bob", USERS, "wind-owners")) == (200, ["wind-1"])
    assert listed(found.token("eve"))[0] == 403
    # What the API server is asked in the caller's name, it answers for the same user.
    request = urllib.request.Request(
        f"{url}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        data=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
        headers={
            "Authorization": f"Bearer {found.token('alice', USERS)}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=20) as got:
        user = json.loads(got.read())["status"]["userInfo"]
    assert (user["username"], USERS in user["groups"]) == ("alice", True)
    for bad in (
        found.token("alice", USERS, exp=int(time.time()) - 1),
        found.token("alice", USERS, aud="vault"),
        found.token("alice", USERS)[:-8] + "AAAAAAAA",
        found.token(""),
    ):
        assert listed(bad)[0] == 401
    assert questions(port) == before
    # Names of the system are not taken from a token without the API server's word.
    assert listed(found.token("system:admin", USERS))[0] in {200, 401, 403}
    assert questions(port) == before + 1
    # A new key is known to the API server at once, and soon here as well.
    found.rotate("second")
    assert listed(found.token("alice", USERS))[0] == 200
    eventually(told_here, 30)


def test_an_issuer_that_calls_itself_something_else_is_not_believed(found: Issuer) -> None:
    verifier = oidc.Verifier(oidc.Settings(issuer=found.url, client_id="kubernetes"))
    keeper = issuer.Keeper(verifier, ca=found.ca)
    found.claims_to_be = "https://login.example.com"
    try:
        assert not asyncio.run(keeper.fetch())
        assert verifier.identity(found.token("alice"), clock.wall()) is None
    finally:
        found.claims_to_be = ""
    assert asyncio.run(keeper.fetch())
    assert verifier.identity(found.token("alice"), clock.wall()) is not None


def test_an_issuer_with_an_unknown_certificate_is_not_believed(found: Issuer) -> None:
    verifier = oidc.Verifier(oidc.Settings(issuer=found.url, client_id="kubernetes"))
    assert not asyncio.run(issuer.Keeper(verifier).fetch())
    assert verifier.identity(found.token("alice"), clock.wall()) is None
