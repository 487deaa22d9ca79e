from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.apps import doctor, validity
from tenantry.kube import config
from tenantry.pki import authority

NOW = 1_800_000_000.0
CA = authority.Authority.create("ca", NOW)
LEAF = CA.issue_server(["x.svc"], NOW)


def test_every_secret_is_looked_at_and_who_renews_it_is_known() -> None:
    found = list(
        validity.of_secrets(
            {
                "tenantry-webhook-tls": {"ca.crt": CA.cert, "tls.crt": LEAF.cert, "tls.key": b"k"},
                "gateway-tls": {"tls.crt": LEAF.cert + CA.cert, "tls.key": b"k"},
                "broken": {"tls.crt": b"-----BEGIN"},
                "empty": {"ca.crt": b"", "other": b"x"},
            }
        )
    )
    assert [(each.name, each.owner) for each in found] == [
        ("broken/tls.crt", doctor.Owner.OTHERS),
        ("gateway-tls/tls.crt", doctor.Owner.OTHERS),
        ("tenantry-webhook-tls/ca.crt", doctor.Owner.PLATFORM),
        ("tenantry-webhook-tls/tls.crt", doctor.Owner.PLATFORM),
    ]
    assert found[0].broken
    assert all(each.begins <= NOW < each.ends for each in found[1:])
    assert found[1].ends == found[3].ends  # the leaf of a chain, not its authority


@pytest.mark.parametrize("in_file", [True, False])
def test_the_certificate_of_the_caller_is_looked_at(tmp_path: Path, in_file: bool) -> None:
    file = tmp_path / "me.crt"
    file.write_bytes(LEAF.cert)
    where = (
        config.Config(server="https://x", cert_file=str(file), key_data=LEAF.key)
        if in_file
        else config.Config(server="https://x", cert_data=LEAF.cert, key_data=LEAF.key)
    )
    (found,) = validity.of_identity(where)
    assert found.owner is doctor.Owner.YOU
    assert found.name == (str(file) if in_file else "client-certificate")
    file.unlink()
    assert len(list(validity.of_identity(where))) == (0 if in_file else 1)


def test_a_token_has_no_certificate() -> None:
    assert not list(validity.of_identity(config.Config(server="https://x", token="t")))
