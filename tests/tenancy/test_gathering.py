from __future__ import annotations

from tenantry.tenancy import gathering


def test_few_reports_are_made_at_once() -> None:
    made = gathering.Gathering(1.0, 0.0)
    for second in range(20):
        assert made.patience(f"t{second}", float(second)) == 0.0
    assert len(made) == 0


def test_of_many_the_rest_waits_and_then_is_made_once() -> None:
    made = gathering.Gathering(1.0, 0.0)
    names = [f"t{number}" for number in range(50)]
    waits = [made.patience(name, 0.0) for name in names]
    assert waits == [0.0] * gathering.BURST + [1.0] * (50 - gathering.BURST)
    # News of those that wait does not put them off any further.
    assert made.patience("t49", 0.25) == 0.75
    later = [made.patience(name, 1.0) for name in names[gathering.BURST :]]
    assert later == [0.0] * (50 - gathering.BURST)
    assert len(made) == 0


def test_what_is_gone_is_forgotten() -> None:
    made = gathering.Gathering(1.0, 0.0)
    for number in range(20):
        made.patience(f"t{number}", 0.0)
    for number in range(20):
        made.forget(f"t{number}")
    assert len(made) == 0
