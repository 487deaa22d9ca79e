from __future__ import annotations

from urllib import parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.gateway import decide, errors, paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/nodes", paths.Target("", "v1", "nodes")),
        ("/api/v1/nodes/n", paths.Target("", "v1", "nodes", "", "n")),
        ("/api/v1/nodes/n/status", paths.Target("", "v1", "nodes", "", "n", "status")),
        ("/api/v1/namespaces", paths.Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", paths.Target("", "v1", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/", paths.Target("", "v1", "namespaces", "", "n")),
        (
            "/api/v1/namespaces/n/finalize",
            paths.Target("", "v1", "namespaces", "", "n", "finalize"),
        ),
        ("/api/v1/namespaces/n/pods", paths.Target("", "v1", "pods", "n")),
        (
            "/api/v1/namespaces/n/pods/p/proxy/a/b",
            paths.Target("", "v1", "pods", "n", "p", "proxy/a/b"),
        ),
        ("/apis/apps/v1/deployments", paths.Target("apps", "v1", "deployments")),
        (
            "/apis/apps/v1/namespaces/n/deployments/d",
            paths.Target("apps", "v1", "deployments", "n", "d"),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            paths.Target("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node"),
        ),
        ("/api", None),
        ("/apis", None),
        ("/apis/apps", None),
        ("/apis/apps/v1", None),
        ("/api/v1", None),
        ("/", None),
        ("/Api/v1/nodes", None),
        ("/api/v1/nodes/a%3Ab", None),
        ("/version", None),
    ],
)
def test_what_a_path_stands_for(path: str, expected: paths.Target | None) -> None:
    found = paths.parse_path(path)
    assert found == expected
    if found is not None:
        assert found.path == path.rstrip("/")


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/nodes",
        "/api//v1/nodes",
        "/api/v1//nodes",
        "/api/v1/nodes//",
        "/api/v1/./nodes",
        "/api/v1/pods/../nodes",
        "/api/v1/nodes/..",
        "/api/v1/nodes;x=y",
        "/api\\v1\\nodes",
        "/api/v1/%6eodes",
        "/api/v1/n%6Fdes",
        "/api/v1/%2e%2e/nodes",
        "/api%2fv1/nodes",
        "/api/v1/nodes%00",
        "/api/v1/nodes%0a",
        "/api/v1/nodes/%252e",
        "/api/v1/nodes%3bx",
        "/api/v1/nodes%5c",
    ],
)
def test_disguised_paths_are_refused(path: str) -> None:
    with pytest.raises(errors.Malformed):
        decide.parse("GET", path)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/n/services/https:web:443/proxy/a//b/%2e/;x",
        "/api/v1/nodes/n/proxy/logs/%2Fvar",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
    ],
)
def test_what_servers_behind_spell_is_left_alone(path: str) -> None:
    decide.parse("GET", path)


@pytest.mark.parametrize(
    ("query", "watch"),
    [
        ("", False),
        ("watch=true", True),
        ("watch=1", True),
        ("watch=", True),
        ("watch", True),
        ("watch=yes", True),
        ("watch=0", False),
        ("watch=false", False),
        ("watch=FALSE", False),
        ("watch=false&watch=true", False),
    ],
)
def test_whether_it_watches_is_told_as_the_api_server_does(query: str, watch: bool) -> None:
    found = paths.parse_query(query)
    assert found.watch == watch
    again = paths.parse_query(found.written())
    assert again.watch == watch


@pytest.mark.parametrize(
    "selector",
    ["a=b", "a in (b", ") or (", "a=b,!tenant", "x notin (a),", "", "a=b&labelSelector=c", ";"],
)
def test_a_callers_selector_cannot_widen_ours(selector: str) -> None:
    query = paths.parse_query(f"labelSelector={parse.quote(selector)}&limit=5")
    written = parse.parse_qs(query.narrowed("tenant in (mine)"))
    (found,) = written["labelSelector"]
    assert found.startswith("tenant in (mine)")
    assert found.removeprefix("tenant in (mine)") in {"", f",{selector}"}
    assert written["limit"] == ["5"]


def test_only_the_first_selector_counts() -> None:
    query = paths.parse_query("labelSelector=a&labelSelector=b")
    assert parse.parse_qs(query.narrowed("t"))["labelSelector"] == ["t,a"]


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(errors.Malformed):
        paths.parse_query("a=%ff")
    with pytest.raises(errors.Malformed):
        paths.parse_query("&".join(f"a{i}=b" for i in range(1000)))


@given(st.text(alphabet="/apisv1nodmec%2.;\\:?&=watch"))
def test_no_spelling_breaks_the_parser(text: str) -> None:
    try:
        request = decide.parse("GET", "/" + text)
    except errors.Malformed:
        return
    if request.target is not None:
        assert request.target.path == request.path.rstrip("/")
