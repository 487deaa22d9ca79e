from __future__ import annotations

import pytest

from tenantry.runtime import metrics


def test_a_series_ends_with_what_it_is_about() -> None:
    registry = metrics.Registry()
    gauge = registry.gauge("a", "A.", ("x",))
    gauge.set(1, "gone")
    gauge.set(2, "kept")
    gauge.remove("gone")
    gauge.remove("never-was")
    assert [line for line in registry.exposition().splitlines() if line[0] != "#"] == [
        'a{x="kept"} 2'
    ]


def test_writes_the_text_form() -> None:
    registry = metrics.Registry()
    total = registry.counter("a_total", 'Help with \\ and\nline "x".', ("code",))
    total.inc("200")
    total.inc("200", by=2)
    total.inc('say "\\"\n')
    registry.gauge("b", "B.").set(0.5)
    registry.gauge("c", "C.", ("x",)).follow(lambda: 7, "y")
    seconds = registry.histogram("d_seconds", "D.", buckets=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 3):
        seconds.observe(value)

    assert registry.exposition().splitlines() == [
        '# HELP a_total Help with \\\\ and\\nline "x".',
        "# TYPE a_total counter",
        'a_total{code="200"} 3',
        'a_total{code="say \\"\\\\\\"\\n"} 1',
        "# HELP b B.",
        "# TYPE b gauge",
        "b 0.5",
        "# HELP c C.",
        "# TYPE c gauge",
        'c{x="y"} 7',
        "# HELP d_seconds D.",
        "# TYPE d_seconds histogram",
        'd_seconds_bucket{le="0.1"} 2',
        'd_seconds_bucket{le="1"} 3',
        'd_seconds_bucket{le="+Inf"} 4',
        "d_seconds_sum 3.65",
        "d_seconds_count 4",
    ]
    assert total.value("200") == 3
    assert seconds.count() == 4


def test_numbers_that_are_looked_up_are_those_of_now() -> None:
    registry = metrics.Registry()
    held = {("a",): 1.0}
    registry.register(metrics.Observed("n", "N.", ("x",), read=lambda: held.items()))
    assert 'n{x="a"} 1' in registry.exposition()
    held = {("b",): 2.0}
    assert [line for line in registry.exposition().splitlines() if line[0] != "#"] == ['n{x="b"} 2']
    with pytest.raises(NotImplementedError):
        next(iter(metrics.Metric("m", "M.").samples()))


def test_the_same_name_is_the_same_metric() -> None:
    registry = metrics.Registry()
    assert registry.counter("a", "", ("x",)) is registry.counter("a", "", ("x",))
    with pytest.raises(ValueError, match="exists as counter"):
        registry.counter("a", "", ("y",))
    with pytest.raises(ValueError, match="exists as counter"):
        registry.gauge("a", "", ("x",))


def test_wrong_labels_are_a_defect() -> None:
    registry = metrics.Registry()
    with pytest.raises(ValueError, match="has the labels"):
        registry.counter("a", "", ("x",)).inc()
    with pytest.raises(ValueError, match="has the labels"):
        registry.histogram("b", "").observe(1.0, "x")


def test_values_from_outside_cannot_fill_the_memory() -> None:
    registry = metrics.Registry()
    total, gauge, seconds = (
        registry.counter("a", "", ("x",)),
        registry.gauge("b", "", ("x",)),
        registry.histogram("c", "", ("x",)),
    )
    for number in range(metrics.MOST_SERIES + 10):
        total.inc(str(number))
        gauge.set(1, str(number))
        seconds.observe(1.0, str(number))
    late = str(metrics.MOST_SERIES + 5)
    assert total.value(late) == 0
    assert gauge.value(late) == 0
    assert seconds.count(late) == 0
    assert total.value("5") == 1
