"""Six callers over every kind that is narrowed: reads, tables, watches and writes.

Each of the many is asked as kubectl asks; kubectl itself plays a table of commands at the end, and
all of test_plane.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import harness, matrix
from .harness import JSON, METADATA, TABLE, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

METRICS = matrix.METRICS


@pytest.fixture(scope="module")
def people(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    yield from matrix.started(world, tmp_path_factory.mktemp("metrics"))


#: Where the things are that belong to a tenant by name, and what they are.
KINDS = {
    "/api/v1/nodes": "Node",
    "/apis/storage.k8s.io/v1/storageclasses": "StorageClass",
    "/apis/networking.k8s.io/v1/ingressclasses": "IngressClass",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "PriorityClass",
    "/apis/node.k8s.io/v1/runtimeclasses": "RuntimeClass",
    "/api/v1/persistentvolumes": "PersistentVolume",
}
#: Who -> whose things they are shown; None = the API server's refusal.
SHOWN = {
    "admin": ("sea", "sky"),
    "marin": ("sea",),
    "captain": ("sea",),
    "bird": ("sky",),
    "plain": None,
    "stranger": None,
}


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize("path", [*KINDS, METRICS])
def test_cluster_wide_kinds(callers: dict[str, Caller], who: str, path: str) -> None:
    shown, caller = SHOWN[who], callers[who]
    # The aggregated API of these tests makes no Tables.
    for accept in (JSON,) if path == METRICS else (JSON, TABLE):
        listed = caller.names(path, accept)
        if shown is None:
            assert listed is None
            continue
        assert listed is not None
        assert [name for name in listed if name.startswith("m-")] == [f"m-{t}" for t in shown]
        if who != "admin":
            assert len(listed) == len(shown)
            if path == METRICS:
                continue
            # What a caller selects can only narrow.
            wider = "labelSelector=for+in+(sea,sky),matrix!=no"
            assert caller.names(f"{path}?{wider}", accept) == ([] if "volumes" in path else listed)
    for name in ("sea", "sky"):
        code, found = caller.ask("GET", f"{path}/m-{name}")
        if shown is None:
            assert (code, found["reason"]) == (403, "Forbidden")
        elif name in shown:
            assert (code, found["metadata"]["name"]) == (200, f"m-{name}")
        else:
            assert (code, found["reason"]) == (404, "NotFound")
            assert f"m-{name}" in found["message"]
    code, found = caller.ask("GET", f"{path}/m-none")
    assert code == (403 if shown is None else 404)
    if shown is not None and who != "admin":
        # What there is none of is told as what is not shown.
        other = "sea" if "sky" in shown else "sky"
        _, hidden = caller.ask("GET", f"{path}/m-{other}")
        assert json.dumps(found).replace("m-none", f"m-{other}") == json.dumps(hidden)


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize("path", KINDS)
def test_cluster_wide_kinds_are_written_by_administrators_only(
    callers: dict[str, Caller], who: str, path: str
) -> None:
    """Defects D3 and D4: writes went on as the proxy, by way of a filter or of no rule at all."""
    caller, one = callers[who], f"{path}/m-sea?dryRun=All"
    body: Any = next(thing for thing in matrix.of("new") if thing["kind"] == KINDS[path])
    label = {"metadata": {"labels": {"stolen": "yes"}}}
    wholes = [
        ("PATCH", one, label),
        ("PUT", one, {**body, "metadata": {"name": "m-sea"}}),
        ("DELETE", one, None),
        ("DELETE", f"{path}?dryRun=All", None),
        ("DELETE", f"{path}?dryRun=All&labelSelector=for%3Dsea", None),
        ("POST", f"{path}?dryRun=All", body),
    ]
    for method, target, content in wholes:
        code, found = caller.ask(method, target, content)
        if who != "admin":
            assert (code, found["reason"]) == (403, "Forbidden"), (method, target)
        elif method != "PUT":
            # A PUT without a version is refused for classes, but by their own rules.
            assert code in {200, 201}, found


#: What is watched -> the two things in it that change, each a tenant's.
WATCHED = {
    "/api/v1/namespaces": ("/api/v1/namespaces/sea-1", "/api/v1/namespaces/sky-1"),
    "/apis/capsule.clastix.io/v1beta2/tenants": (
        "/apis/capsule.clastix.io/v1beta2/tenants/sea",
        "/apis/capsule.clastix.io/v1beta2/tenants/sky",
    ),
    "/api/v1/configmaps": (
        "/api/v1/namespaces/sea-1/configmaps/sea-notes",
        "/api/v1/namespaces/sky-1/configmaps/sky-notes",
    ),
    **{path: (f"{path}/m-sea", f"{path}/m-sky") for path in KINDS},
}
_turns = itertools.count()


def _changed(admin: Caller, target: str) -> None:
    patch = {"metadata": {"annotations": {"turn": str(next(_turns))}}}
    code, found = admin.ask("PATCH", target, patch)
    assert code == 200, found


#: Narrowed by selector, by looking, and spread over namespaces.
AS_METADATA = (
    "/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/configmaps",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "accept"),
    [*itertools.product(WATCHED, (JSON, TABLE)), *((path, METADATA) for path in AS_METADATA)],
)
def test_a_watch_begins_with_a_list_and_sees_the_same(
    callers: dict[str, Caller], path: str, accept: str
) -> None:
    """All six at once, while a thing of each tenant changes, twice and in turn.

    So who has seen the second change of one has seen that nothing came of the other.
    """
    things = WATCHED[path]
    names = [thing.rpartition("/")[2] for thing in things]
    with contextlib.ExitStack() as stack:
        open_watches: dict[str, harness.Watch] = {}
        for who, caller in callers.items():
            listed = caller.names(path, JSON if accept == METADATA else accept)
            watch = stack.enter_context(
                caller.watching(f"{path}?watch=true&timeoutSeconds=20", accept)
            )
            if listed is None:
                assert SHOWN[who] is None
                assert watch.code == 403
                continue
            assert watch.code == 200
            # Every watch first tells what is there.
            begun = [watch.next() for _ in listed]
            assert sorted(begun, key=str) == sorted((("ADDED", name) for name in listed), key=str)
            open_watches[who] = watch
        for _ in range(2):
            for thing in things:
                _changed(callers["admin"], thing)
        for who, watch in open_watches.items():
            for name in names:
                if not any(tenant in name for tenant in SHOWN[who] or ()):
                    continue
                told: list[tuple[str, str]] = []
                while told.count(("MODIFIED", name)) < 2 and len(told) < 50:
                    came = watch.next()
                    assert came is not None
                    told.append(came)
                if who != "admin":
                    assert {said for _, said in told} == {name}
                    continue
                # Of the other one, too; and only once.
                assert {said for _, said in told} >= set(names)
                break


#: What tenants own, of which all that others have is hidden.
OWNED = list(WATCHED)[:3]


@pytest.mark.parametrize("who", SHOWN)
@pytest.mark.parametrize("path", OWNED)
def test_what_tenants_own(callers: dict[str, Caller], who: str, path: str) -> None:
    shown: tuple[str, ...] | None = SHOWN[who]
    caller, inside = callers[who], "configmaps" in path
    if who == "plain" and not inside:
        shown = ()
    things = dict(zip(("sea", "sky"), WATCHED[path], strict=True))
    expected = [things[tenant].rpartition("/")[2] for tenant in shown or ()]
    selected = f"{path}?fieldSelector=metadata.name!=kube-root-ca.crt"
    for accept in (JSON, TABLE):
        listed = caller.names(selected, accept)
        if shown is None:
            assert listed is None
        elif who == "admin":
            assert set(listed or ()) > set(expected)
        else:
            assert listed == expected
    for tenant, thing in things.items():
        told = [caller.ask("GET", thing + more) for more in ("", "-none")]
        codes = [code for code, _ in told]
        if tenant in (shown or ()):
            assert codes == [200, 404]
        else:
            assert codes == ([403, 403] if shown is None or inside else [404, 404])
            # Nothing tells what there is.
            name = thing.rpartition("/")[2]
            hidden, missing = (json.dumps(found) for _, found in told)
            assert missing.replace(f"{name}-none", name) == hidden


@pytest.mark.parametrize("path", WATCHED)
def test_nobody_watches_one_that_is_not_theirs(callers: dict[str, Caller], path: str) -> None:
    names = [thing.rpartition("/")[2] for thing in WATCHED[path]]
    whole = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    for who, name in (("marin", names[1]), ("captain", names[1]), ("bird", names[0]),
                      ("plain", names[0]), ("stranger", names[0])):  # fmt: skip
        one = f"fieldSelector=metadata.name%3D{name}"
        with callers[who].watching(f"{path}?{whole}&{one}&allowWatchBookmarks=true") as watch:
            if SHOWN[who] is None and not (who == "plain" and path in OWNED[:2]):
                assert watch.code == 403
            else:
                assert watch.code == 200
                assert watch.next() == ("BOOKMARK", "")


#: Within a namespace, below names and beside the resource API: what nobody narrows.
INSIDE = ("sea-1", "sky-1", "none-1")
READ_INSIDE = ("configmaps", "pods/none/log", "pods/none", "podtemplates?watch=false")
BESIDE = (
    "/api/v1/namespaces/sea-1/status", "/api/v1/namespaces/sky-1/status", "/api/v1/nodes/m-sea/proxy/pods", "/apis/none.example.com",
    "/api/v1/none", "/api/v1/namespaces/sky-1/finalize", "/metrics", "/version",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=1",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/none",
)  # fmt: skip


def _written(namespace: str) -> list[tuple[str, str, Any]]:
    """Return writes of what is in a namespace, of itself, and of its tenant."""
    maps, this = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}"
    tenants = "/apis/capsule.clastix.io/v1beta2/tenants"
    name = namespace.partition("-")[0]
    change = {"metadata": {"annotations": {"by": "matrix"}}}
    found: list[tuple[str, str, Any]] = [
        ("POST", maps, {"metadata": {"name": "new"}}),
        ("PUT", f"{maps}/{name}-notes", {"metadata": {"name": f"{name}-notes"}}),
        ("DELETE", maps, None),
        ("POST", f"{this}/serviceaccounts/none/token", {"spec": {}}),
        ("PUT", f"{this}/finalize", {"metadata": {"name": namespace}}),
        ("DELETE", f"/api/v1/namespaces?labelSelector=a%3D{name}", None),
        ("POST", tenants, {"metadata": {"name": f"{name}-more"}, "spec": {"owners": []}}),
    ]
    for thing in (f"{maps}/{name}-notes", this, f"{tenants}/{name}"):
        found += [("PATCH", thing, change), ("DELETE", thing, None)]
    return found


@pytest.fixture(scope="module")
def direct(world: World, people: dict[str, Path]) -> Iterator[dict[str, Caller]]:
    """Give the same people at the API server itself."""
    found = {name: Caller(world.direct(path)) for name, path in people.items()}
    yield found
    for caller in found.values():
        caller.close()


@pytest.mark.parametrize("who", SHOWN)
def test_all_else_is_as_at_the_api_server(
    callers: dict[str, Caller], direct: dict[str, Caller], who: str
) -> None:
    """Every write, and every read that is not narrowed: what it says, and whom it names."""
    asked: list[tuple[str, str, Any]] = [("GET", path, None) for path in BESIDE]
    for namespace in INSIDE:
        base = f"/api/v1/namespaces/{namespace}"
        asked += [("GET", f"{base}/{path}", None) for path in READ_INSIDE]
        if who != "admin" or namespace == "none-1":
            asked += _written(namespace)
    for method, path, body in asked:
        sign = "&" if "?" in path else "?"
        target = path if method == "GET" else f"{path}{sign}dryRun=All"
        there, here = (one[who].raw(method, target, body) for one in (direct, callers))
        gated = method == "GET" and "/none-1/" in path and path.endswith("/none")
        if gated and there[0] == 403:
            # Only here one is told that the whole namespace is missing.
            assert (here[0], json.loads(here[1])["reason"]) == (404, "NotFound"), path
        elif there[0] >= 400:
            assert here == there, (method, target)
        else:
            assert here[0] == there[0], (method, target, here)
    may = [f"{tenant}-1" for tenant in SHOWN[who] or ()]
    for path in (*INSIDE, "watch/namespaces"):
        target = path if "/" in path else f"namespaces/{path}/configmaps?watch=true"
        with callers[who].watching(f"/api/v1/{target}") as watch:
            assert watch.code == (200 if who == "admin" or path in may else 403), path


@pytest.mark.parametrize("path", OWNED[:2])
def test_who_owns_nothing_watches_nothing(callers: dict[str, Caller], path: str) -> None:
    target = f"{path}?watch=true&timeoutSeconds=1"
    with callers["plain"].watching(target) as watch:
        for thing in WATCHED[path]:
            _changed(callers["admin"], thing)
        assert watch.code == 200
        assert watch.next() is None


PATHS = (
    "/api", "/apis", "/version", "/api/v1/namespaces", "/api/v1/nodes", "/api/v1/pods",
    "/api/v1/namespaces/sea-1", "/api/v1/namespaces/sea-1/configmaps",
    "/apis/capsule.clastix.io/v1beta2/tenants", METRICS, "/openapi/v2", "/metrics",
    "/api/v1/namespaces?watch=true", "/api/v1/namespaces/sea-1/pods/p/log",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_the_anonymous_get_nowhere(world: World, people: dict[str, Path], path: str) -> None:
    assert people
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        body = None if method == "GET" else b"{}"
        asked = urllib.request.Request(f"{world.server}{path}", method=method, data=body)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(asked, timeout=20, context=world.trusting)
        with caught.value as error:
            assert error.code == 401
            found = json.loads(error.read())
        assert (found["kind"], found["reason"]) == ("Status", "Unauthorized")


@pytest.mark.parametrize("who", ["marin", "bird", "captain", "plain", "stranger"])
def test_namespaced_writes_are_the_callers_own(callers: dict[str, Caller], who: str) -> None:
    allowed = {"marin": "sea-1", "captain": "sea-1", "bird": "sky-1"}.get(who)
    for namespace in ("sea-1", "sky-1", "default"):
        target = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All&fieldManager=kubectl-create"
        code, found = callers[who].ask("POST", target, {"metadata": {"name": f"by-{who}"}})
        assert code == (201 if namespace == allowed else 403), found


#: Who, kubectl's words -> what it says: names, or the reason of a refusal.
COMMANDS: list[tuple[str, str, list[str] | str]] = [
    ("admin", "get nodes -l matrix=yes -o name", ["node/m-sea", "node/m-sky"]),
    ("marin", "get nodes -o name", ["node/m-sea"]),
    ("captain", "get nodes -o name", ["node/m-sea"]),
    ("bird", "get nodes -o name", ["node/m-sky"]),
    ("plain", "get nodes -o name", "Forbidden"),
    ("stranger", "get nodes -o name", "Forbidden"),
    ("marin", "get sc,ingressclass,pc,runtimeclass,pv -o name", [
        "storageclass.storage.k8s.io/m-sea", "ingressclass.networking.k8s.io/m-sea",
        "priorityclass.scheduling.k8s.io/m-sea", "runtimeclass.node.k8s.io/m-sea",
        "persistentvolume/m-sea",
    ]),
    ("marin", "get nodes.metrics.k8s.io -o name", ["nodemetrics.metrics.k8s.io/m-sea"]),
    ("marin", "top nodes --no-headers", ["m-sea"]),
    ("admin", "top pods -A --no-headers", ["sea-1", "sky-1"]),
    ("marin", "top pods -A --no-headers", ["sea-1"]),
    ("bird", "top pods -A --no-headers", ["sky-1"]),
    ("marin", "top pods -n sea-1 --no-headers", ["p-sea-1"]),
    ("marin", "top pods -n sky-1 --no-headers", "Forbidden"),
    ("stranger", "top pods -A --no-headers", "Forbidden"),
    ("stranger", "top nodes --no-headers", "Forbidden"),
    ("marin", "get priorityclass m-sky", "NotFound"),
    ("marin", "get configmaps -A -o name --watch --request-timeout=2s "
     "--field-selector metadata.name=sea-notes", ["configmap/sea-notes"]),
    ("captain", "label node m-sea stolen=yes", "Forbidden"),
    ("bird", "label node m-sea stolen=yes", "NotFound"),
    ("marin", "delete node m-sea --dry-run=server", "Forbidden"),
    ("marin", "delete storageclass --all --dry-run=server", "Forbidden"),
    ("marin", "create configmap x -n sky-1 --dry-run=server", "Forbidden"),
    ("admin", "delete node m-sea --dry-run=server -o name", ["node/m-sea"]),
]  # fmt: skip


@pytest.mark.parametrize(("who", "words", "says"), COMMANDS, ids=lambda v: str(v)[:40])
def test_kubectl_itself(
    world: World, people: dict[str, Path], who: str, words: str, says: list[str] | str
) -> None:
    done = world.run(people[who], *words.split(), check=False)
    if isinstance(says, str):
        assert says.lower() in done.stderr.lower()
        assert done.returncode != 0
        assert done.stdout == ""
    else:
        told = [line.split()[0] for line in done.stdout.splitlines() if line]
        assert told == says, done.stderr
