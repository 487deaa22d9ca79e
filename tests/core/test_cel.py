"""CEL with the functions of Kubernetes."""

from __future__ import annotations

import pytest

from tenantry.core import cel

GPU = {
    "driver": "gpu.example.com",
    "attributes": {
        "gpu.example.com": {"model": "A100", "index": 3, "driverVersion": "550.1.0", "mig": False}
    },
    "capacity": {"gpu.example.com": {"memory": 80 * 1024**3 * 1000}},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model.startsWith("H")', False),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0', True),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))', False),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("81Gi"))', True),
        ('quantity("1500m").add(quantity("500m")).sub(quantity("1")).asInteger() == 1', True),
        ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("9.0.0"))', True),
        ('semver("1.0.0").isGreaterThan(semver("1.0.0-rc.2"))', True),
        ('semver("1.0.0-rc.10").compareTo(semver("1.0.0-rc.9")) == 1', True),
        ('"other" in device.attributes', False),
    ],
)
def test_values(text: str, holds: bool) -> None:
    assert cel.compiled(text, ("device",)).holds({"device": GPU}) is holds


@pytest.mark.parametrize(
    "text",
    ['device.attributes["other"].x == 1', "1 + 1", 'quantity("x").asInteger() == 1', "1/0 == 1"],
)
def test_no_value(text: str) -> None:
    program = cel.compiled(text, ("device",))
    with pytest.raises(cel.EvaluationError, match="not true or false"):
        program.holds({"device": GPU})


@pytest.mark.parametrize("text", ["device.driver ==", "nobody == 1", "a" * 20_000])
def test_refused(text: str) -> None:
    with pytest.raises(cel.InvalidExpression, match=r"expression: Invalid value"):
        cel.compiled(text, ("device",))
