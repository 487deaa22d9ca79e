from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tenantry.core import clock
from tenantry.kube import config
from tenantry.local import credentials, errors, plan, state
from tenantry.pki import authority

ROLE = plan.Role(name="controller", argv=("true",), service_account="capsule")
PLAN = plan.Plan(name="one", binaries={}, api_ports=(20001,), roles=(ROLE,))


@pytest.fixture
def paths(tmp_path: Path) -> state.Layout:
    made = state.layout("one", tmp_path)
    state.prepare(made, minimum_free=0)
    credentials.ensure(PLAN, made, clock.wall())
    return made


def certificates(paths: state.Layout) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in paths.pki.iterdir()}


def test_what_users_hang_on_stays(paths: state.Layout) -> None:
    before = certificates(paths)
    credentials.ensure(PLAN, paths, clock.wall())
    after = certificates(paths)
    kept = {name for name in before if before[name] == after[name]}
    assert kept == {
        f"{name}.{end}"
        for name in ("ca", "etcd-ca", "front-proxy-ca", "service-account")
        for end in ("crt", "key")
    }


def test_each_purpose_has_its_own_authority(paths: state.Layout) -> None:
    for leaf, signer in (
        ("serving", "ca"),
        ("etcd-server", "etcd-ca"),
        ("etcd-client", "etcd-ca"),
        ("front-proxy-client", "front-proxy-ca"),
    ):
        certificate = authority.load_certificate((paths.pki / f"{leaf}.crt").read_bytes())
        issuer = authority.load_certificate((paths.pki / f"{signer}.crt").read_bytes())
        certificate.verify_directly_issued_by(issuer)


def test_kubeconfigs_are_readable_by_the_client(paths: state.Layout) -> None:
    for name in ("admin", *credentials.UNIT_USERS):
        found = config.load(paths.kubeconfig(name))
        assert found.server == "https://127.0.0.1:20001"
        assert found.cert_data
    role = config.load(paths.kubeconfig("controller"))
    assert role.token_file == str(paths.tokens / "controller")
    assert not role.cert_data


def test_everything_is_for_the_owner_only(paths: state.Layout) -> None:
    files = [*paths.pki.iterdir(), *paths.kubeconfigs.iterdir()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.parametrize("user", ["alice", 'quote"d', "system:serviceaccount:a:b", "ä: #"])
def test_any_user(paths: state.Layout, user: str) -> None:
    text = credentials.for_user(PLAN, paths, user=user, groups=["g"], now=clock.wall())
    assert yaml.safe_load(text)["users"][0]["name"] == user


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_broken_authority_is_named_and_not_replaced(
    paths: state.Layout, name: str, content: bytes
) -> None:
    (paths.pki / name).write_bytes(content)
    with pytest.raises(errors.BrokenStateError, match=r"pki/ca\.crt cannot be read: .*destroy"):
        credentials.ensure(PLAN, paths, clock.wall())
    with pytest.raises(errors.BrokenStateError):
        credentials.for_user(PLAN, paths, user="alice", groups=[], now=clock.wall())
    assert (paths.pki / name).read_bytes() == content


def test_before_the_first_start_there_is_no_authority(tmp_path: Path) -> None:
    with pytest.raises(errors.BrokenStateError, match="missing"):
        credentials.for_user(PLAN, state.Layout(tmp_path), user="a", groups=[], now=0)
