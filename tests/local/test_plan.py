from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import errors, plan, state

ROLE = plan.Role(
    name="webhook",
    argv=("tenantry", "webhook", "--port={hook}"),
    service_account="capsule",
    ports=("hook", "health"),
    ready="http://127.0.0.1:{health}/readyz",
)
PLAN = plan.Plan(
    name="one",
    binaries={"etcd": "/bin/etcd"},
    api_ports=(20001,),
    ports={"webhook.hook": 20002, "webhook.health": 20003},
    roles=(ROLE,),
    nodes=({"kind": "Node"},),
)


def test_survives_the_disk(tmp_path: Path) -> None:
    paths = state.Layout(tmp_path)
    assert plan.load(paths) is None
    plan.store(PLAN, paths)
    assert plan.load(paths) == PLAN


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 1}'])
def test_what_is_no_plan_is_named(tmp_path: Path, content: str) -> None:
    paths = state.Layout(tmp_path)
    paths.plan.write_text(content)
    with pytest.raises(errors.BrokenStateError, match=r"plan\.json cannot be read: .*destroy"):
        plan.load(paths)


def test_placeholders() -> None:
    paths = state.Layout(Path("/state/one"))
    text = "{name} {root} {kubeconfig} {hook} {health}"
    assert plan.filled(text, ROLE, PLAN, paths) == (
        "one /state/one /state/one/kubeconfigs/webhook.yaml 20002 20003"
    )


@pytest.mark.parametrize("text", ["{nope}", "{", "{0}", "{}", "}"])
def test_placeholders_that_do_not_exist(text: str) -> None:
    with pytest.raises(core_errors.InvalidValueError, match=r"{hook}, {health}, {kubeconfig}"):
        plan.filled(text, ROLE, PLAN, state.Layout(Path("/state/one")))


def test_listeners() -> None:
    assert plan.listeners((plan.KWOK,), (ROLE,)) == (
        "etcd",
        "etcd.probes",
        "kwok",
        "webhook.hook",
        "webhook.health",
    )
