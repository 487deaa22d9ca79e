"""Real kubectl at the gateway, before a real API server, as everybody who may come along."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib import parse

import pytest

from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.kube import watch as watching

from . import harness
from .harness import USERS, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

CONFIG_MAPS = ("configmaps", "-A", "--field-selector", "metadata.name!=kube-root-ca.crt")


@pytest.fixture(scope="session")
def robot(world: World) -> Path:
    """A service account that owns a tenant, with a token."""
    return world.robot


@pytest.fixture(scope="session")
def people(world: World, robot: Path) -> dict[str, Path]:
    return {
        "admin": world.kubeconfig("admin", "system:masters"),
        "alice": world.kubeconfig("alice", USERS),
        "bob": world.kubeconfig("bob", USERS, "wind-owners"),
        "robot": robot,
        "carol": world.kubeconfig("carol", USERS),
        "eve": world.kubeconfig("eve"),
    }


#: What kubectl calls things -> where they are.
PLACES = {
    "namespace": "/api/v1/namespaces", "node": "/api/v1/nodes", "configmap": "/api/v1/configmaps",
    "tenant": "/apis/capsule.clastix.io/v1beta2/tenants",
    "storageclass": "/apis/storage.k8s.io/v1/storageclasses",
}  # fmt: skip
SELECTORS = {"-l": "labelSelector", "--field-selector": "fieldSelector"}


def listed(caller: Caller, what: tuple[str, ...]) -> list[str] | None:
    """Ask what kubectl asks for these words; return the names."""
    kind, *words = [word for word in what if word != "-A"]
    path = next(there for name, there in PLACES.items() if kind.startswith(name))
    if not words:
        return caller.names(path)
    if len(words) == 2:
        return caller.names(f"{path}?{SELECTORS[words[0]]}={parse.quote(words[1])}")
    code, found = caller.ask("GET", f"{path}/{words[0]}")
    assert code == 200
    return [found["metadata"]["name"]]


ALL = ("oil-1", "oil-2", "gas-1", "wind-1", "kube-system", "default", "capsule-system")
#: Who, what is asked for, what is there. None = refused by the API server.
MATRIX: list[tuple[str, tuple[str, ...], list[str] | None]] = [
    ("alice", ("namespaces",), ["gas-1", "oil-1", "oil-2"]),
    ("bob", ("namespaces",), ["wind-1"]),
    ("robot", ("namespaces",), ["oil-1", "oil-2"]),
    ("carol", ("namespaces",), []),
    ("eve", ("namespaces",), None),
    ("alice", ("namespaces", "-l", "kubernetes.io/metadata.name=oil-1"), ["oil-1"]),
    ("alice", ("namespaces", "-l", "kubernetes.io/metadata.name in (oil-1,wind-1)"), ["oil-1"]),
    ("alice", ("tenants",), ["gas", "oil"]),
    ("bob", ("tenants",), ["wind"]),
    ("robot", ("tenants",), ["oil"]),
    ("carol", ("tenants",), []),
    ("eve", ("tenants",), None),
    ("alice", ("nodes",), ["n-oil"]),
    ("bob", ("nodes",), None),
    ("alice", ("storageclasses",), ["oil-fast", "shared-1"]),
    ("bob", ("storageclasses",), None),
    ("alice", CONFIG_MAPS, ["gas-1-notes", "oil-1-notes", "oil-2-notes"]),
    ("bob", CONFIG_MAPS, ["wind-notes"]),
    ("robot", CONFIG_MAPS, ["oil-1-notes", "oil-2-notes"]),
    ("carol", CONFIG_MAPS, None),
    ("eve", CONFIG_MAPS, None),
    ("alice", ("namespace", "oil-1"), ["oil-1"]),
    ("alice", ("node", "n-oil"), ["n-oil"]),
    ("alice", ("storageclass", "shared-1"), ["shared-1"]),
    ("alice", ("tenant", "oil"), ["oil"]),
    ("alice", ("clusterroles",), None),
    ("alice", ("configmaps", "-n", "wind-1"), None),
]


@pytest.mark.parametrize(
    ("who", "what", "expected"), MATRIX, ids=lambda v: " ".join(v) if isinstance(v, tuple) else None
)
def test_everybody_sees_what_is_theirs(
    world: World, people: dict[str, Path], callers: dict[str, Caller], *, who: str,
    what: tuple[str, ...], expected: list[str] | None,
) -> None:  # fmt: skip
    if expected is not None:
        # As programs ask for it, and as a table for people, whose rows the gateway cannot select.
        assert listed(callers[who], what) == expected
        table = world.run(people[who], "get", *what, "--no-headers").stdout
        column = 1 if "-A" in what else 0
        assert [line.split()[column] for line in table.splitlines()] == expected
        return
    done = world.run(people[who], "get", *what, check=False)
    assert "(Forbidden)" in done.stderr
    assert done.stdout == ""


def test_the_administrator_sees_all(world: World, people: dict[str, Path]) -> None:
    assert set(ALL) <= set(world.names(people["admin"], "namespaces"))
    assert {"n-oil", "n-wind"} <= set(world.names(people["admin"], "nodes"))


@pytest.mark.parametrize(
    ("who", "what"),
    [
        ("alice", "namespace/wind-1"),
        ("alice", "namespace/kube-system"),
        ("alice", "namespace/nobodys"),
        ("alice", "tenant/wind"),
        ("alice", "node/n-wind"),
        ("alice", "storageclass/wind-fast"),
        ("bob", "namespace/oil-1"),
    ],
)
def test_what_is_not_shown_does_not_exist(callers: dict[str, Caller], who: str, what: str) -> None:
    kind, _, name = what.partition("/")
    code, found = callers[who].ask("GET", f"{PLACES[kind]}/{name}")
    assert (code, found["kind"], found["reason"]) == (404, "Status", "NotFound")
    assert found["message"].endswith(f'"{name}" not found')


@pytest.mark.parametrize(
    ("who", "args", "answer"),
    [
        ("alice", ("list", "namespaces"), "yes"),
        ("alice", ("watch", "namespaces"), "yes"),
        ("alice", ("list", "configmaps", "-A"), "yes"),
        ("alice", ("list", "nodes"), "yes"),
        ("alice", ("delete", "nodes"), "no"),
        ("alice", ("create", "configmaps", "-A"), "no"),
        ("alice", ("list", "clusterroles"), "no"),
        ("bob", ("list", "nodes"), "no"),
        ("carol", ("list", "configmaps", "-A"), "no"),
        ("eve", ("list", "namespaces"), "no"),
    ],
)
def test_tools_that_ask_first_are_told_the_truth(
    world: World, people: dict[str, Path], who: str, args: tuple[str, ...], answer: str
) -> None:
    done = world.run(people[who], "auth", "can-i", *args, check=False)
    assert done.stdout.strip() == answer


def test_the_rules_review_lists_what_the_gateway_shows(world: World) -> None:
    listed = world.alice("auth", "can-i", "--list").stdout
    assert any(line.startswith("namespaces ") and "list" in line for line in listed.splitlines())


@pytest.mark.parametrize("who", ["alice", "robot"])
def test_the_api_server_knows_who_it_is(world: World, people: dict[str, Path], who: str) -> None:
    told = world.run(people[who], "auth", "whoami", "-o", "json").stdout
    found = json.loads(told)["status"]["userInfo"]
    assert found["username"] == (harness.ACCOUNT if who == "robot" else "alice")
    assert ("uid" in found) == (who == "robot")


def test_writes_are_the_callers(world: World, people: dict[str, Path]) -> None:
    made = world.run(people["alice"], "delete", "node", "n-oil", check=False)
    assert 'User "alice" cannot delete resource "nodes"' in made.stderr
    made = world.run(people["alice"], "label", "namespace", "wind-1", "a=b", check=False)
    assert made.returncode != 0
    made = world.run(people["robot"], "create", "clusterrole", "x", "--verb=get",
                     "--resource=pods", check=False)  # fmt: skip
    assert f'User "{harness.ACCOUNT}" cannot create' in made.stderr


def test_impersonation_is_judged_as_by_the_api_server(
    world: World, people: dict[str, Path]
) -> None:
    for who in ("alice", "robot"):
        for what in (("namespaces",), ("configmaps", "-n", "wind-1")):
            done = world.run(people[who], "get", *what, "--as=bob", "--as-group=system:masters",
                             check=False)  # fmt: skip
            assert done.returncode != 0
            assert "cannot impersonate" in done.stderr
    as_alice = ("--as=alice", f"--as-group={USERS}")
    assert world.names(people["admin"], "namespaces", *as_alice) == ["gas-1", "oil-1", "oil-2"]
    assert world.names(people["admin"], "configmaps", "-n", "oil-1", *as_alice)


def test_somebody_with_hundreds_of_groups(world: World) -> None:
    groups = [f"https://login.example.com/groups/{number:04}" for number in range(500)]

    async def test() -> None:
        async with kube.Client(world.config("admin", "system:masters")) as admin:
            before = reviews(world)
            alice = admin.as_user("alice", [USERS, *groups])
            for _ in range(3):
                listed = await alice.list(resources.NAMESPACES)
                await alice.list(resources.CONFIG_MAPS, "oil-1")
            assert len(listed.items) >= 3
            # Once for the user, once for whatever group.
            assert reviews(world) - before == 2

    asyncio.run(test())


def test_a_setting_shows_a_tenant_and_rbac_what_is_in_it(world: World) -> None:
    """Defect D6: what the first namespace allowed was shown of all of them."""
    setting = {
        "apiVersion": "capsule.clastix.io/v1beta1",
        "kind": "ProxySetting",
        "metadata": {"name": "dora", "namespace": "oil-1"},
        "spec": {
            "subjects": [
                {
                    "kind": "User",
                    "name": "dora",
                    "proxySettings": [{"kind": "Nodes", "operations": ["List"]}],
                    "clusterResources": [
                        {
                            "apiGroups": ["storage.k8s.io"],
                            "resources": ["storageclasses"],
                            "selector": {"matchLabels": {"for": "dora"}},
                        }
                    ],
                }
            ]
        },
    }
    dora = world.kubeconfig("dora", USERS)
    world.alice("create", "rolebinding", "dora", "-n", "oil-2", "--clusterrole=view", "--user=dora")
    try:
        world.plane.run("apply", "-f", "-", stdin=json.dumps(setting))
        harness.eventually(lambda: world.names(dora, "namespaces") == ["oil-1", "oil-2"])
        assert world.names(dora, *CONFIG_MAPS) == ["oil-2-notes"]
        assert world.names(dora, "nodes") == ["n-oil"]
        assert world.names(dora, "storageclasses") == []
        world.plane.run("label", "storageclass", "wind-fast", "for=dora")
        assert world.names(dora, "storageclasses") == ["wind-fast"]
        wait = ("wait", "proxysetting/dora", "-n", "oil-1", "--for=condition=Ready")
        world.plane.run(*wait, "--timeout=20s")
    finally:
        world.plane.run("label", "storageclass", "wind-fast", "for-", check=False)
        world.plane.run("delete", "proxysetting", "dora", "-n", "oil-1", check=False)
        world.plane.run("delete", "rolebinding", "dora", "-n", "oil-2", check=False)


def test_a_missing_namespace_is_not_forbidden_but_missing(world: World) -> None:
    done = world.alice("get", "configmap", "x", "-n", "no-such-namespace", check=False)
    assert "(NotFound)" in done.stderr
    done = world.alice("get", "configmap", "x", "-n", "wind-1", check=False)
    assert "(Forbidden)" in done.stderr


def test_a_new_namespace_is_there_at_once(world: World) -> None:
    for number in range(3):
        name = f"oil-new-{number}"
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"capsule.clastix.io/tenant": "oil"}},
        }
        world.alice("create", "-f", "-", stdin=json.dumps(body))
        assert name in world.names(world.kubeconfig("alice", USERS), "namespaces")
    names = [f"oil-new-{number}" for number in range(3)]
    # She waits until they are gone, which takes lists, watches and a 404 of what she owned.
    world.alice("delete", "namespace", *names, "--timeout=50s")
    assert not set(names) & set(world.names(world.kubeconfig("alice", USERS), "namespaces"))


def raw(world: World, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    """Ask without any certificate."""
    ca = str(world.plane.platform.paths.pki / "ca.crt")
    request = urllib.request.Request(f"{world.server}{path}", headers=headers)
    try:
        context = ssl.create_default_context(cafile=ca)
        with urllib.request.urlopen(request, timeout=20, context=context) as got:
            return got.status, json.loads(got.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic YTpi"},
        {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"},
        {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
        {"X-Forwarded-Client-Cert": "Cert=x"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/api/v1/namespaces/oil-1/secrets"])
def test_nobody_gets_one_answer_and_it_is_401(
    world: World, headers: dict[str, str], path: str
) -> None:
    """Defects D1 and D9: an error was followed by the API server's answer, and said 403."""
    code, body = raw(world, path, **headers)
    assert code == 401
    assert body["kind"] == "Status"
    assert body["reason"] == "Unauthorized"
    assert "items" not in body


def test_a_watch_sees_what_comes_and_ends_when_the_right_does(world: World) -> None:
    async def test() -> None:
        tenant = "sun"
        async with (
            kube.Client(world.plane.config()) as admin,
            kube.Client(world.config("alice", USERS)) as alice,
        ):
            await admin.create(
                capsule.TENANTS,
                {"metadata": {"name": tenant}, "spec": {"owners": [harness.user("alice")]}},
            )
            version = (await alice.list(resources.NAMESPACES)).resource_version
            found: list[tuple[str, str]] = []
            async with asyncio.timeout(30):
                # The tenant is new: until the gateway has heard of it, watches are for two.
                await known(alice, tenant)
            async with (
                asyncio.timeout(40),
                alice.watch(resources.NAMESPACES, resource_version=version) as stream,
            ):
                labels = {"capsule.clastix.io/tenant": tenant}
                body = {"metadata": {"name": "sun-1", "labels": labels}}
                await alice.create(resources.NAMESPACES, body)
                revoked = 0.0
                loop = asyncio.get_running_loop()
                async for line in stream:
                    event = watching.decode(line)
                    found.append(
                        (event.type, str(json.loads(bytes(event.raw_object)).get("reason")))
                    )
                    if revoked == 0.0:
                        assert json.loads(bytes(event.raw_object))["metadata"]["name"] == "sun-1"
                        patch: dict[str, Any] = {"spec": {"owners": []}}
                        await admin.patch(capsule.TENANTS, tenant, kind="merge", body=patch)
                        revoked = loop.time()
                assert loop.time() - revoked < 10
            assert found[0][0] == "ADDED"
            assert found[-1] == ("ERROR", "Expired")
            await admin.delete(capsule.TENANTS, tenant)

    async def known(client: kube.Client, tenant: str) -> None:
        for _ in range(100):
            listed = await client.list(capsule.TENANTS)
            if tenant in [json.loads(bytes(item))["metadata"]["name"] for item in listed.items]:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{tenant} is not shown")

    asyncio.run(test())


def test_all_namespaces_are_watched_together(world: World) -> None:
    async def test() -> None:
        async with kube.Client(world.config("alice", USERS)) as alice:
            listed = await alice.list(resources.CONFIG_MAPS)
            seen: list[str] = []
            async with (
                asyncio.timeout(30),
                alice.watch(
                    resources.CONFIG_MAPS, resource_version=listed.resource_version
                ) as stream,
            ):
                for namespace in ("oil-1", "gas-1"):
                    body = {"metadata": {"name": "event", "namespace": namespace}}
                    await alice.create(resources.CONFIG_MAPS, body)
                async for line in stream:
                    found = json.loads(line)["object"]["metadata"]
                    if found["name"] == "event":
                        seen.append(found["namespace"])
                    if len(seen) == 2:
                        break
            assert sorted(seen) == ["gas-1", "oil-1"]
            for namespace in seen:
                await alice.delete(resources.CONFIG_MAPS, "event", namespace)

    asyncio.run(test())


def test_a_service_accounts_token_is_reviewed_once(world: World, robot: Path) -> None:
    """Defect D14: two or three reviews for each request."""

    async def test() -> None:
        async with kube.Client(config_of(robot)) as client:
            before = reviews(world)
            for _ in range(20):
                await client.list(resources.NAMESPACES)
                await client.list(resources.CONFIG_MAPS, "oil-1")
            assert reviews(world) - before <= 1

    asyncio.run(test())


def test_a_forged_token_is_refused_every_time(world: World) -> None:
    path = world.with_token("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.", "forged")
    for _ in range(3):
        done = world.run(path, "get", "namespaces", check=False)
        assert "Unauthorized" in done.stderr or "provide credentials" in done.stderr
        with pytest.raises(errors.Unauthorized):
            asyncio.run(listing(path))


async def listing(path: Path) -> None:
    async with kube.Client(config_of(path)) as client:
        await client.list(resources.CONFIG_MAPS, "oil-1")


def config_of(path: Path) -> Any:
    from tenantry.kube import config

    return config.load(path)


def reviews(world: World) -> int:
    """Count the questions that the gateway asked the API server about callers."""
    port = world.plane.plan.ports["gateway.health"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as got:
        for line in got.read().decode().splitlines():
            if line.startswith("gateway_identity_questions "):
                return int(float(line.split()[1]))
    raise AssertionError("no such metric")
