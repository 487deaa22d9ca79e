"""Whether all API servers do the same: by their command lines, and by what they do."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.nodes import apiservers

Object = dict[str, Any]

PLUGINS = "NodeRestriction,PodNodeSelector"
#: When the fixture's servers were started, and an hour later.
STARTED, LATER = "2026-01-01T00:00:00Z", 1767229200.0


def mirror(number: int, *flags: str, plugins: str = PLUGINS, **status: Any) -> Object:
    """Return the mirror pod of a master as a kubelet of kubeadm's makes it."""
    command = ["kube-apiserver", f"--advertise-address=10.0.0.{number}", *flags]
    if plugins:
        command.append(f"--enable-admission-plugins={plugins}")
    return {
        "metadata": {
            "name": f"kube-apiserver-master-0{number}",
            "namespace": "kube-system",
            "labels": {"component": "kube-apiserver", "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.hash": f"hash-{number}"},
        },
        "spec": {"containers": [{"name": "kube-apiserver", "command": command}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"state": {"running": {"startedAt": STARTED}}}],
            **status,
        },
    }


def errors(pods: list[Object], **how: Any) -> list[tuple[str, str]]:
    found = apiservers.static(pods, **how)
    return [(one.server, one.message) for one in found if one.severity == "error"]


def test_three_masters_that_agree() -> None:
    pods = [mirror(1), mirror(2, plugins="PodNodeSelector,NodeRestriction"), mirror(3)]
    assert errors(pods) == []
    # That hashes differ is a hint and no more: each advertises its own address.
    assert [one.severity for one in apiservers.static(pods)] == ["hint"]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (mirror(2, plugins="NodeRestriction"), "PodNodeSelector is not enabled"),
        (mirror(2, plugins=""), "PodNodeSelector is not enabled"),
        (mirror(2, "--disable-admission-plugins=PodNodeSelector"), "is not enabled"),
        (mirror(2, plugins=f"{PLUGINS},AlwaysPullImages"), "most enable NodeRestriction"),
        (mirror(2, "--admission-control-config-file=/x"), 'is "/x", of most ""'),
    ],
)
def test_the_odd_one_is_named(odd: Object, words: str) -> None:
    found = errors([mirror(1), odd, mirror(3)])
    assert {server for server, _ in found} == {"kube-apiserver-master-02"}
    assert any(words in message for _, message in found)


def test_a_server_that_crashes_and_one_that_was_not_restarted() -> None:
    crashing = mirror(
        2,
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=[
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 7}
        ],
    )
    found = errors([mirror(1), crashing, mirror(3)])
    assert found == [
        ("kube-apiserver-master-02", "does not run: CrashLoopBackOff (7 restarts)"),
        ("kube-apiserver-master-02", "its pod is not Ready (condition is False)"),
    ]
    stale = errors([mirror(1)], since=LATER)
    assert stale == [
        ("kube-apiserver-master-01", f"runs since {STARTED}, which is before the change was made")
    ]


def test_flags_in_two_words() -> None:
    pod = mirror(1, plugins="")
    pod["spec"]["containers"][0]["command"] += ["--enable-admission-plugins", PLUGINS]
    assert apiservers.plugins(pod)[0] == {"NodeRestriction", "PodNodeSelector"}


WANTED = {"a": "b"}
GOOD = apiservers.Answer(address="10.0.0.1:6443", selector=WANTED, conflict="refused")


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"selector": {}}, "PodNodeSelector has no effect there"),
        ({"selector": WANTED}, "lets a pod through"),
        ({"selector": None, "problem": "no route"}, "cannot be asked: no route"),
        ({"selector": WANTED, "conflict": "x", "ready": "etcd failed"}, "/readyz: etcd failed"),
    ],
)
def test_what_a_server_does_otherwise(odd: Object, words: str) -> None:
    assert apiservers.behavioural([GOOD, GOOD], WANTED) == []
    found = apiservers.behavioural(
        [GOOD, apiservers.Answer(address="10.0.0.2:6443", **odd)], WANTED
    )
    assert {one.server for one in found} <= {"10.0.0.2:6443", ""}
    assert any(words in one.message for one in found)


def test_no_address_at_all() -> None:
    assert "names no address" in apiservers.behavioural([], WANTED)[0].message
