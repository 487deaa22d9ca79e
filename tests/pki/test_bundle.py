from __future__ import annotations

from dataclasses import replace

import pytest

from tenantry.pki import authority, bundle, errors

NOW = 1_800_000_000.0
DAY = authority.DAY
SANS = ["127.0.0.1", "webhook.svc"]
POLICY = bundle.Policy(overlap=3600, authority_days=90, leaf_days=30)


@pytest.fixture
def fresh() -> bundle.Bundle:
    return bundle.renewed(None, SANS, NOW, name="hooks", policy=POLICY)


def decide(kept: bundle.Bundle | None, now: float, sans: list[str] = SANS) -> bundle.Action:
    return bundle.decide(kept, sans, now, policy=POLICY).action


def renewed(kept: bundle.Bundle, now: float, sans: list[str] = SANS) -> bundle.Bundle:
    return bundle.renewed(kept, sans, now, name="hooks", policy=POLICY)


@pytest.mark.parametrize(
    ("days", "action"),
    [
        (0, bundle.Action.KEEP),
        (19, bundle.Action.KEEP),
        (21, bundle.Action.ISSUE),
        (61, bundle.Action.ANNOUNCE),
        (91, bundle.Action.CREATE),
    ],
)
def test_each_age_has_its_step(fresh: bundle.Bundle, days: float, action: bundle.Action) -> None:
    assert decide(fresh, NOW + days * DAY) is action


def test_nothing_stored_means_create() -> None:
    assert decide(None, NOW) is bundle.Action.CREATE


def test_a_new_name_is_reissued_by_the_same_authority(fresh: bundle.Bundle) -> None:
    sans = [*SANS, "10.0.0.7"]
    assert decide(fresh, NOW, sans) is bundle.Action.ISSUE
    after = renewed(fresh, NOW, sans)
    assert after.authority == fresh.authority
    assert bundle.names_of(authority.load_certificate(after.leaf.cert)) == set(sans)


def test_fewer_names_are_no_reason_to_reissue(fresh: bundle.Bundle) -> None:
    assert decide(fresh, NOW, SANS[:1]) is bundle.Action.KEEP


def test_a_foreign_leaf_is_reissued(fresh: bundle.Bundle) -> None:
    other = authority.Authority.create("hooks", NOW)
    foreign = replace(fresh, leaf=other.issue_server(SANS, NOW))
    assert decide(foreign, NOW) is bundle.Action.ISSUE


def test_what_is_current_is_returned_as_it_is(fresh: bundle.Bundle) -> None:
    assert renewed(fresh, NOW + DAY) is fresh


def test_a_successor_is_announced_before_it_signs(fresh: bundle.Bundle) -> None:
    start = NOW + 61 * DAY
    announced = renewed(fresh, start)
    assert announced.authority == fresh.authority
    assert announced.successor is not None
    assert announced.successor.cert in announced.trust
    assert decide(announced, start + POLICY.overlap - 10) is bundle.Action.KEEP

    promoted = renewed(announced, start + POLICY.overlap)
    assert promoted.authority == announced.successor
    assert fresh.authority.cert in promoted.trust
    signer = authority.load_certificate(promoted.authority.cert)
    authority.load_certificate(promoted.leaf.cert).verify_directly_issued_by(signer)
    assert decide(promoted, start + POLICY.overlap) is bundle.Action.KEEP


def test_at_every_moment_yesterdays_client_trusts_todays_leaf(fresh: bundle.Bundle) -> None:
    """Walk a year in steps of the overlap: trust as of one step ago holds the signer of now."""
    kept, now = fresh, NOW
    while now < NOW + 365 * DAY:
        now += 12 * 3600
        after = renewed(kept, now)
        assert after.authority.cert in kept.trust
        leaf = authority.load_certificate(after.leaf.cert)
        assert leaf.not_valid_after_utc.timestamp() > now
        kept = after


def test_retired_authorities_leave_when_they_expire(fresh: bundle.Bundle) -> None:
    kept, now = fresh, NOW
    while now < NOW + 400 * DAY:
        now += DAY
        kept = renewed(kept, now)
        assert len(kept.retired) <= 1


class TestSecret:
    def test_round_trip(self, fresh: bundle.Bundle) -> None:
        assert bundle.Bundle.from_secret(fresh.to_secret()) == fresh

    def test_round_trip_in_mid_rotation(self, fresh: bundle.Bundle) -> None:
        announced = renewed(fresh, NOW + 61 * DAY)
        assert bundle.Bundle.from_secret(announced.to_secret()) == announced
        promoted = renewed(announced, NOW + 62 * DAY)
        assert bundle.Bundle.from_secret(promoted.to_secret()) == promoted

    @pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
    @pytest.mark.parametrize("value", [b"", b"garbage"])
    def test_anything_broken_is_named(self, fresh: bundle.Bundle, key: str, value: bytes) -> None:
        data = {**fresh.to_secret(), key: value}
        with pytest.raises(errors.BrokenCertificateError):
            bundle.Bundle.from_secret(data)

    def test_leaf_with_another_key_is_refused(self, fresh: bundle.Bundle) -> None:
        data = {**fresh.to_secret(), "tls.key": fresh.authority.key}
        with pytest.raises(errors.BrokenCertificateError, match="differ"):
            bundle.Bundle.from_secret(data)
