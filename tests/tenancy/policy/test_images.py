"""One parser for image references: what registries see is what rules compare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import errors
from tenantry.tenancy.policy import images

SHA = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("nginx", ("docker.io", "library/nginx", "", "", False)),
        ("nginx:1.27", ("docker.io", "library/nginx", "1.27", "", False)),
        ("team/app", ("docker.io", "team/app", "", "", False)),
        ("docker.io/nginx", ("docker.io", "library/nginx", "", "", True)),
        ("index.docker.io/library/nginx", ("docker.io", "library/nginx", "", "", True)),
        ("registry-1.docker.io/a/b", ("docker.io", "a/b", "", "", True)),
        ("DOCKER.IO/nginx", ("docker.io", "library/nginx", "", "", True)),
        ("Harbor.Example.com/Team".lower(), ("harbor.example.com", "team", "", "", True)),
        ("HARBOR.example.com/team/app:V1", ("harbor.example.com", "team/app", "V1", "", True)),
        # A capital letter makes a host of it, for no repository has one.
        ("Harbor/app", ("harbor", "app", "", "", True)),
        ("localhost/app", ("localhost", "app", "", "", True)),
        ("localhost:5000/app", ("localhost:5000", "app", "", "", True)),
        ("r.example.com:5000/a/b/c:x", ("r.example.com:5000", "a/b/c", "x", "", True)),
        ("[2001:db8::1]:5000/app:1", ("[2001:db8::1]:5000", "app", "1", "", True)),
        (f"app@{SHA}", ("docker.io", "library/app", "", SHA, False)),
        (f"r.io/app:1@{SHA}", ("r.io", "app", "1", SHA, True)),
        # Without a slash there is no host: `r.io` is a repository, `5000` a tag.
        ("r.io:5000", ("docker.io", "library/r.io", "5000", "", False)),
    ],
)
def test_parts(written: str, parts: tuple[str, str, str, str, bool]) -> None:
    found = images.parse(written)
    assert (found.registry, found.repository, found.tag, found.digest, found.qualified) == parts


@pytest.mark.parametrize(
    "written",
    [
        "", " ", "/app", "app/", "a//b", "NGINX", "r.io/App", "r.io/app:", "r.io/app@", "app@sha256:1",
        f"app@@{SHA}", f"app@{SHA}@{SHA}", "http://r.io/app", "r.io/app:a:b", "-r.io/app", "r.io:x/app",
        "r.io/app tag", "r.io/app\n", "r.io/.app", "r.io/a..b", "r.io/../x", "[::1/app", "a" * 2000,
        "r.io/ａpp", "r.io/app:" + "t" * 129, "user@r.io/app",
    ],
)  # fmt: skip
def test_what_nobody_could_pull(written: str) -> None:
    with pytest.raises(errors.InvalidValueError, match="must be an image reference such as"):
        images.parse(written)


def test_forms_are_the_names_of_this_very_image() -> None:
    assert images.parse("nginx").forms == (
        "nginx", "docker.io/library/nginx", "docker.io/library/nginx:latest",
    )  # fmt: skip
    pinned = images.parse(f"R.io/app:1@{SHA}")
    assert pinned.forms == (f"R.io/app:1@{SHA}", f"r.io/app:1@{SHA}")
    # A pin may hold anything, so a name without it is another image, but one that it claims to be.
    assert set(pinned.wide_forms) - set(pinned.forms) == {"r.io/app:1", f"r.io/app@{SHA}"}


NAMES = st.from_regex(r"\A[a-z0-9]{1,8}(?:[._-][a-z0-9]{1,4})?\Z")
HOSTS = st.from_regex(r"\A[a-z][a-z0-9]{0,6}\.[a-z]{2,5}(?::[0-9]{2,5})?\Z")
TAGS = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}\Z")


@given(host=HOSTS, path=st.lists(NAMES, min_size=1, max_size=3), tag=TAGS, pinned=st.booleans())
def test_what_is_put_together_comes_apart(
    host: str, path: list[str], tag: str, pinned: bool
) -> None:
    written = f"{host}/{'/'.join(path)}:{tag}" + (f"@{SHA}" if pinned else "")
    found = images.parse(written)
    assert found.qualified
    assert found.tag == tag
    assert bool(found.digest) == pinned
    if found.registry != images.DOCKER_HUB:
        assert (found.registry, found.repository) == (host, "/".join(path))


@given(st.text(max_size=60))
def test_any_text_is_an_image_or_refused_and_canonical_names_are_stable(text: str) -> None:
    try:
        found = images.parse(text)
    except errors.InvalidValueError:
        return
    again = images.parse(found.canonical)
    assert again.canonical == found.canonical
    assert (again.registry, again.repository) == (found.registry, found.repository)
    assert again.qualified


@given(host=HOSTS, data=st.data())
def test_a_host_in_any_case_is_one_registry(host: str, data: st.DataObject) -> None:
    mixed = "".join(data.draw(st.sampled_from([c, c.upper()])) for c in host)
    assert images.parse(f"{mixed}/a/b").canonical == images.parse(f"{host}/a/b").canonical
