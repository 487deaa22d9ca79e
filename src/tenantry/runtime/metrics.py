"""Metrics: counters, gauges and histograms, written in Prometheus' text form.

Names are controller-runtime's wherever it has one, so that existing dashboards and alerts work.
A registry belongs to one process; nothing here is global.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Labels = tuple[str, ...]

#: controller-runtime's buckets of `controller_runtime_reconcile_time_seconds`.
RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50,
    60,
)  # fmt: skip
#: client-go's buckets of the work queue.
QUEUE_BUCKETS = tuple(10.0**power for power in range(-8, 4))
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

#: A label with values from outside could otherwise grow without end.
MOST_SERIES = 10_000


class Metric:
    """What all kinds share: a name, a help text, label names."""

    kind = ""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help = help
        self.labels = tuple(labels)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Give suffix, label text and value of every sample."""
        raise NotImplementedError

    def text(self, values: Labels, more: str = "") -> str:
        """Write the label part of a sample."""
        parts = [
            f'{name}="{_escape(value)}"' for name, value in zip(self.labels, values, strict=True)
        ]
        if more:
            parts.append(more)
        return f"{{{','.join(parts)}}}" if parts else ""

    def check(self, values: Labels) -> Labels:
        """Refuse a wrong number of label values."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, got {values}")
        return values


class Counter(Metric):
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._values: dict[Labels, float] = {} if self.labels else {(): 0.0}

    def inc(self, *values: str, by: float = 1.0) -> None:
        """Add to the series with these label values."""
        held = self._values.get(values)
        if held is None:
            self.check(values)
            if len(self._values) >= MOST_SERIES:
                return
            held = 0.0
        self._values[values] = held + by

    def value(self, *values: str) -> float:
        """Return the present value."""
        return self._values.get(self.check(values), 0.0)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Give every sample."""
        for values, number in self._values.items():
            yield "", self.text(values), number


class Gauge(Counter):
    """A number that goes up and down; may be read from a function when asked for."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._functions: dict[Labels, Callable[[], float]] = {}

    def set(self, number: float, *values: str) -> None:
        """Set the series with these label values."""
        if values in self._values or len(self._values) < MOST_SERIES:
            self._values[self.check(values)] = number

    def follow(self, function: Callable[[], float], *values: str) -> None:
        """Read the series from a function from now on."""
        self._functions[self.check(values)] = function
        self._values.setdefault(values, 0.0)

    def remove(self, *values: str) -> None:
        """End the series with these label values: what it was about is gone."""
        self._values.pop(self.check(values), None)
        self._functions.pop(values, None)

    def value(self, *values: str) -> float:
        """Return the present value."""
        function = self._functions.get(self.check(values))
        return function() if function is not None else self._values.get(values, 0.0)

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Give every sample."""
        for values in self._values:
            yield "", self.text(values), self.value(*values)


class Observed(Metric):
    """Numbers that are looked up when somebody asks, and belong to objects that are counted.

    There are as many series as objects, so they are not bounded here.
    """

    kind = "gauge"

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        read: Callable[[], Iterable[tuple[Labels, float]]],
    ) -> None:
        super().__init__(name, help, labels)
        self._read = read

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Give every sample."""
        for values, number in self._read():
            yield "", self.text(values), number


class Histogram(Metric):
    """How observations spread over buckets."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = LATENCY_BUCKETS,
    ) -> None:
        super().__init__(name, help, labels)
        self._bounds = tuple(float(bound) for bound in buckets)
        self._series: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, number: float, *values: str) -> None:
        """Count one observation."""
        series = self._series.get(values)
        if series is None:
            self.check(values)
            if len(self._series) >= MOST_SERIES:
                return
            series = self._series[values] = ([0] * (len(self._bounds) + 1), [0.0])
        series[0][bisect.bisect_left(self._bounds, number)] += 1
        series[1][0] += number

    def count(self, *values: str) -> int:
        """Return how many observations there were."""
        series = self._series.get(self.check(values))
        return sum(series[0]) if series is not None else 0

    def samples(self) -> Iterator[tuple[str, str, float]]:
        """Give every sample."""
        for values, (counts, total) in self._series.items():
            running = 0
            for bound, number in zip(self._bounds, counts, strict=False):
                running += number
                yield "_bucket", self.text(values, f'le="{_number(bound)}"'), running
            running += counts[-1]
            yield "_bucket", self.text(values, 'le="+Inf"'), running
            yield "_sum", self.text(values), total[0]
            yield "_count", self.text(values), running


M = TypeVar("M", bound=Metric)


class Registry:
    """All metrics of a process; the same name gives the same metric."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        """Return a counter, made on first use."""
        return self._get(Counter(name, help, labels))

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:
        """Return a gauge, made on first use."""
        return self._get(Gauge(name, help, labels))

    def histogram(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = LATENCY_BUCKETS,
    ) -> Histogram:
        """Return a histogram, made on first use."""
        return self._get(Histogram(name, help, labels, buckets=buckets))

    def register(self, metric: M) -> M:
        """Add a metric of another kind, or return the one of that name."""
        return self._get(metric)

    def exposition(self) -> str:
        """Write everything in the text form, version 0.0.4."""
        return "".join(self._lines(self._metrics.values()))

    def _lines(self, metrics: Iterable[Metric]) -> Iterator[str]:
        for metric in sorted(metrics, key=lambda metric: metric.name):
            text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
            yield f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n"
            for suffix, labels, number in metric.samples():
                yield f"{metric.name}{suffix}{labels} {_number(number)}\n"

    def _get(self, metric: M) -> M:
        held = self._metrics.setdefault(metric.name, metric)
        if type(held) is not type(metric) or held.labels != metric.labels:
            raise ValueError(f"{metric.name} exists as {held.kind} with labels {held.labels}")
        return held


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(float(number))
