"""What an expression costs: compiling it once, evaluating it often, beside Python's own formatting.

    python -m benchmarks.expressions [--json FILE]

The baseline is str.format with the same result, and re.search. One process, one core, no control
plane; about 20 s. Each figure is the median of five rounds.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import measuring

from tenantry.core import cel, jsonpath, regex
from tenantry.core.templates import engine

DATA: dict[str, Any] = {
    "tenant": {
        "metadata": {"name": "oil", "labels": {"team": "research", "zone": "a"}},
        "spec": {"owners": [{"kind": "User", "name": f"person-{n}"} for n in range(10)]},
    },
    "namespace": {"metadata": {"name": "oil-dev", "labels": {"env": "dev"}}},
}
POD: dict[str, Any] = {
    "spec": {
        "containers": [
            {"name": f"c{n}", "image": "r/x:1", "resources": {"requests": {"cpu": "500m"}}}
            for n in range(5)
        ]
    }
}
NAME = "{{.tenant.metadata.name}}-{{.namespace.metadata.name}}"
PIPED = '{{ printf "%s-%s" .tenant.metadata.name (.namespace.metadata.labels.env | default "x") | trunc 63 }}'
LOOP = "{{range $i, $o := .tenant.spec.owners}}{{if $i}},{{end}}{{$o.name | upper}}{{end}}"
HOST = r"^[a-z0-9-]+\.oil\.example\.com$"


def _microseconds(call: Callable[[], object], seconds: float = 0.2) -> float:
    call()
    count, began = 0, time.process_time()
    while time.process_time() - began < seconds / 4:
        call()
        count += 1
    rounds = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(count):
            call()
        rounds.append((time.process_time() - began) / count * 1e6)
    return round(statistics.median(rounds), 2)


def _formatted() -> str:
    return "{}-{}".format(DATA["tenant"]["metadata"]["name"], DATA["namespace"]["metadata"]["name"])


def _joined() -> str:
    return ",".join(owner["name"].upper() for owner in DATA["tenant"]["spec"]["owners"])


def _fresh_cel(text: str) -> object:
    cel.compiled.cache_clear()
    return cel.compiled(text, ("object",))


def measure() -> dict[str, dict[str, float]]:
    """Return microseconds of CPU by expression."""
    found: dict[str, dict[str, float]] = {}
    plain = {NAME: _formatted, LOOP: _joined}
    for label, source in (("name", NAME), ("pipeline", PIPED), ("loop over 10", LOOP)):
        template = engine.compile(source, "f")
        found[f"template: {label}"] = {
            "compile": _microseconds(functools.partial(engine.compile, source, "f")),
            "evaluate": _microseconds(functools.partial(template.render, DATA)),
        }
        if source in plain:
            assert template.render(DATA) == plain[source]()
            found[f"template: {label}"]["python"] = _microseconds(plain[source])
    for label, path in (
        ("path", ".spec.containers[*].resources.requests.cpu"),
        ("filter", '.spec.containers[?(@.name=="c3")].image'),
    ):
        compiled = jsonpath.path(path, "f")
        found[f"jsonpath: {label}"] = {
            "compile": _microseconds(functools.partial(jsonpath.path, path, "f")),
            "evaluate": _microseconds(functools.partial(compiled.find, POD)),
        }
    found["jsonpath: path"]["python"] = _microseconds(
        lambda: [c["resources"]["requests"]["cpu"] for c in POD["spec"]["containers"]]
    )
    for label, text in (
        ("five containers", 'object.spec.containers.all(c, c.image.startsWith("r/"))'),
        (
            "five quantities",
            "object.spec.containers.map(c, quantity(c.resources.requests.cpu)"
            ".asApproximateFloat()).sum() < 4.0",
        ),
    ):
        program = cel.compiled(text, ("object",))
        found[f"cel: {label}"] = {
            "compile": _microseconds(functools.partial(_fresh_cel, text)),
            "evaluate": _microseconds(functools.partial(program.holds, {"object": POD})),
        }
    python = re.compile(HOST)
    found["regex: a host name"] = {
        "evaluate": _microseconds(lambda: regex.found(HOST, "shop.oil.example.com")),
        "python": _microseconds(lambda: python.search("shop.oil.example.com")),
    }
    return found


def main() -> None:
    """Measure, print, and record on request."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    machine, before = measuring.machine(), measuring.busy()
    began = time.process_time()
    found = measure()
    result = {
        "machine": machine,
        "disturbed": measuring.disturbed(before, time.process_time() - began),
        "microseconds_of_cpu": found,
    }
    for label, figures in found.items():
        print(f"{label:28}", "  ".join(f"{name} {value:8.2f}" for name, value in figures.items()))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
