"""Whether all API servers admit pods by the same rules; pure (specs/governance DED-4, DED-5).

Two methods. *Static*: the command lines in the mirror pods of kube-system, compared as sets.
*Behavioural*: the same pod, dry-run at each address of the `kubernetes` EndpointSlice, and one that
every server must refuse; it also works where no static pods can be seen. A difference in behaviour
is a finding even where the flags look equal.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tenantry.core import clock

PLUGIN = "PodNodeSelector"
ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
CONFIG_HASH = "kubernetes.io/config.hash"
SELECTOR = {"component": "kube-apiserver"}
_FLAGS = ("enable-admission-plugins", "disable-admission-plugins")
_CONFIG = "admission-control-config-file"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with one server, or worth knowing."""

    severity: Literal["error", "warning", "hint"]
    server: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one address answered."""

    address: str
    ready: str = ""
    """what is wrong with /readyz; "" for nothing"""
    selector: Mapping[str, str] | None = None
    """node selector of the pod that was dry-run; None when it was not answered"""
    problem: str = ""
    """why not"""
    conflict: str = ""
    """message with which the pod that conflicts was refused; "" when it was let through"""


def flags(pod: Mapping[str, Any]) -> dict[str, str]:
    """Read the flags of a mirror pod's API server; the last of two counts."""
    spec = pod.get("spec") or {}
    found: dict[str, str] = {}
    for container in spec.get("containers") or ():
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for index, word in enumerate(words):
            if not word.startswith("--"):
                continue
            key, equals, value = word[2:].partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            found[key] = value if equals or following.startswith("-") else following
    return found


def plugins(pod: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str], str]:
    """Return what is enabled and disabled, and the file of the configuration."""
    found = flags(pod)
    enabled, disabled = (
        frozenset(name.strip() for name in found.get(flag, "").split(",") if name.strip())
        for flag in _FLAGS
    )
    return enabled, disabled, found.get(_CONFIG, "")


def static(pods: Sequence[Mapping[str, Any]], *, since: float | None = None) -> list[Finding]:
    """Compare mirror pods.

    :param since: when the configuration was changed; a server that is older has not taken it up
    """
    result: list[Finding] = []
    if not pods:
        return [
            Finding(
                "hint", "", "no mirror pods of API servers can be seen; only behaviour is compared"
            )
        ]
    by_name = {str(pod["metadata"]["name"]): pod for pod in pods}
    settings = {name: plugins(pod) for name, pod in sorted(by_name.items())}
    usual = _usual(settings.values())
    for name, (enabled, disabled, file) in settings.items():
        if PLUGIN not in enabled or PLUGIN in disabled:
            result.append(Finding("error", name, f"admission plugin {PLUGIN} is not enabled"))
        if (enabled, disabled) != usual[:2]:
            result.append(
                Finding(
                    "error",
                    name,
                    f"enables {_listed(enabled)} and disables {_listed(disabled)}; most enable "
                    f"{_listed(usual[0])} and disable {_listed(usual[1])}",
                )
            )
        if file != usual[2]:
            text = f'--{_CONFIG} is "{file}", of most "{usual[2]}"'
            result.append(Finding("error", name, text))
        result += _health(name, by_name[name], since)
    hashes = {(pod["metadata"].get("annotations") or {}).get(CONFIG_HASH, "") for pod in pods}
    if len(hashes) > 1 and not result:
        text = "their manifests differ, as they do by the address that each advertises"
        result.append(Finding("hint", "", text))
    return result


def _usual(settings: Iterable[tuple[frozenset[str], frozenset[str], str]]) -> tuple[Any, ...]:
    counted = collections.Counter(settings)
    most = max(counted.values())
    # Of equally many, those count as usual that have the plugin.
    return max(
        (one for one, count in counted.items() if count == most),
        key=lambda one: (PLUGIN in one[0], sorted(one[0])),
    )


def _listed(names: Iterable[str]) -> str:
    return ",".join(sorted(names)) or "none"


def _health(name: str, pod: Mapping[str, Any], since: float | None) -> Iterable[Finding]:
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            text = f"does not run: {waiting.get('reason', 'waiting')}"
            yield Finding("error", name, f"{text} ({container.get('restartCount', 0)} restarts)")
        started = ((container.get("state") or {}).get("running") or {}).get("startedAt")
        if started and since is not None and clock.parse_rfc3339(started) < since:
            yield Finding(
                "error", name, f"runs since {started}, which is before the change was made"
            )
    ready = {one["type"]: one["status"] for one in status.get("conditions") or ()}.get("Ready")
    if ready != "True":
        yield Finding("error", name, f"its pod is not Ready (condition is {ready})")


def behavioural(answers: Sequence[Answer], wanted: Mapping[str, str]) -> list[Finding]:
    """Compare what each address did with the same pods.

    :param wanted: the node selector of the namespace that they were tried in
    """
    result: list[Finding] = []
    if not answers:
        return [Finding("error", "", "the EndpointSlice default/kubernetes names no address")]
    for one in answers:
        if one.ready:
            result.append(Finding("error", one.address, f"/readyz: {one.ready}"))
        if one.selector is None:
            result.append(Finding("error", one.address, f"cannot be asked: {one.problem}"))
            continue
        missing = {key: value for key, value in wanted.items() if one.selector.get(key) != value}
        if missing:
            result.append(
                Finding(
                    "error",
                    one.address,
                    f"gives a pod the node selector {dict(one.selector)}, expected "
                    f"{dict(wanted)}: {PLUGIN} has no effect there",
                )
            )
        elif not one.conflict:
            text = "lets a pod through whose node selector conflicts with its namespace's"
            result.append(Finding("error", one.address, text))
    asked = [one for one in answers if one.selector is not None]
    if len({tuple(sorted((one.selector or {}).items())) for one in asked}) > 1:
        odd = sorted({f.server for f in result if PLUGIN in f.message})
        text = f"the API servers do not agree: {', '.join(odd)} of {len(asked)} differs"
        result.append(Finding("error", "", text))
    return result


def addresses(slices: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the addresses of the `kubernetes` EndpointSlices, sorted."""
    found: set[tuple[str, int]] = set()
    for one in slices:
        ports = [port["port"] for port in one.get("ports") or () if port.get("port")]
        for endpoint in one.get("endpoints") or ():
            for address in endpoint.get("addresses") or ():
                found.update((str(address), int(port)) for port in ports[:1])
    return sorted(found)
