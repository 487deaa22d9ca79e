"""Labels and annotations that a tenant keeps on what lies in its namespaces (specs/capsule 4.6).

Admission writes them into whatever is created or changed. What existed before a rule did, and what
a rule that is gone has left, is put right by going through the objects: `Marks` says what they
shall carry by kind, `lacking` and `leftover` what that means for one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.runtime import jsonpatch
from tenantry.tenancy.policy import compiling, engine, keys, labelling

Object = Mapping[str, Any]

#: Group ("*" for any) and kind -> part of the metadata -> key -> value.
Marks = dict[tuple[str, str], dict[str, dict[str, str]]]

POD = ("", "Pod")
OF_SERVICES = (("", "Service"), ("", "Endpoints"), ("discovery.k8s.io", "EndpointSlice"))


def wanted(policy: compiling.Policy) -> Marks:
    """Return what objects of a namespace shall carry, whoever writes them.

    A rule for some people only says what they write, so admission alone can keep it. Namespaces
    themselves have a record of their own, in their tenant's status.
    """
    found: Marks = {}
    for setting in policy.metadata.settings:
        if not setting.always or setting.audience != engine.EVERYBODY:
            continue
        for group in setting.kinds.groups:
            for kind in sorted(setting.kinds.exact):
                if kind != compiling.NAMESPACE and "*" not in kind:
                    parts = found.setdefault((group, kind), {})
                    parts.setdefault(setting.part, {})[setting.key] = setting.value
    for place in (POD, *OF_SERVICES):
        for part, values in policy.added_to(*place).items():
            if values:
                parts = found.setdefault(place, {})
                # These win over rules, as they do in admission.
                parts[part] = {**parts.get(part, {}), **values}
    return found


def recorded(bodies: Iterable[Mapping[str, Any]]) -> Marks:
    """Return what the rules of a RuleStatus, as Capsule writes it, say is kept."""
    found: Marks = {}
    for body in bodies:
        enforce = body.get("enforce") or {}
        if body.get("audience"):
            continue
        for rule in enforce.get("metadata") or ():
            groups = [g.rpartition("/")[0] if g != "*" else g for g in rule.get("apiGroups") or ()]
            for group in groups or [""]:
                for kind in rule.get("kinds") or ():
                    for part in labelling.PARTS:
                        for key, entry in (rule.get(part) or {}).items():
                            value = entry.get("managed")
                            if value is not None and kind != compiling.NAMESPACE:
                                parts = found.setdefault((group, kind), {})
                                parts.setdefault(part, {})[key] = value
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """What is on record about the objects of a namespace.

    :param kept: what they carry or may still carry, by each state of the rules
    :param passed: uid of the namespace when all its objects were gone through for just this. A
        record that was copied with the namespace's content elsewhere says nothing there.
    """

    kept: tuple[Marks, ...] = ()
    passed: str = ""


def written(record: Record) -> str:
    """Write down what objects may carry; "" for nothing."""
    if not record.kept:
        return ""
    kept = [
        [{"group": group, "kind": kind, **parts} for (group, kind), parts in sorted(marks.items())]
        for marks in record.kept
    ]
    # One text, so that neither half is ever written or forged without the other.
    plain = {"kept": kept, **({"passed": record.passed} if record.passed else {})}
    return msgspec.json.encode(plain, order="deterministic").decode()


def read(text: str) -> Record:
    """Read what was written down; what is not readable is no record."""
    try:
        plain = msgspec.json.decode(text) if text else []
        # Earlier releases wrote the list alone.
        body = plain if isinstance(plain, dict) else {"kept": plain}
        kept = msgspec.convert(body.get("kept"), list[list[dict[str, Any]]])
        passed = body.get("passed")
        return Record(
            tuple(
                {
                    (str(entry["group"]), str(entry["kind"])): {
                        part: {str(k): str(v) for k, v in (entry.get(part) or {}).items()}
                        for part in labelling.PARTS
                        if entry.get(part)
                    }
                    for entry in marks
                }
                for marks in kept
            ),
            passed if isinstance(passed, str) else "",
        )
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, AttributeError):
        return Record()


def on_record(wanted: Marks, before: Record, uid: str) -> Record:
    """Return what objects may carry from now on: what they shall, and what they did.

    Changes that come faster than objects are gone through add up; all of them are remembered.

    :param uid: the namespace's, for which alone it counts that objects were gone through
    """
    older = [marks for marks in before.kept if marks and marks != wanted]
    kept = ((wanted,) if wanted else ()) + tuple(older)
    is_same = kept == before.kept == (wanted,) and before.passed == uid
    return Record(kept, uid if is_same else "")


def settled(wanted: Marks, uid: str) -> Record:
    """Return what is on record when nothing is left to do."""
    return Record((wanted,), uid) if wanted else Record()


def by_place(marks: Marks, group: str, kind: str) -> dict[str, dict[str, str]]:
    """Return what objects of one kind shall carry, by part; rules for any group included."""
    found: dict[str, dict[str, str]] = {}
    for place in (("*", kind), (group, kind)):
        for part, values in marks.get(place, {}).items():
            found[part] = {**found.get(part, {}), **values}
    return found


def is_let_be(obj: Object) -> bool:
    """Tell whether an object is none of the tenant's, or going."""
    metadata = obj.get("metadata") or {}
    mark = keys.of(obj, keys.LABELS).get(constants.MANAGED_BY_LABEL)
    return bool(metadata.get("deletionTimestamp")) or mark in {
        constants.MANAGED_BY_CONTROLLER,
        constants.MANAGED_BY_RESOURCES,
    }


def lacking(obj: Object, parts: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return everything an object shall carry if it lacks any of it, by part; else nothing."""
    missing = any(
        keys.of(obj, part).get(key) != value
        for part, values in parts.items()
        for key, value in values.items()
    )
    return {part: dict(values) for part, values in parts.items() if values} if missing else {}


def leftover(
    obj: Object,
    before: Sequence[Mapping[str, Mapping[str, str]]],
    parts: Mapping[str, Mapping[str, str]],
) -> list[jsonpatch.Operation]:
    """Return the patch that removes what was kept and is not any more.

    Only with a value that was kept: another one is somebody else's.

    :param before: what objects of the kind carried by each record
    """
    operations: list[jsonpatch.Operation] = []
    for part, key, value in sorted({one for parts_of in before for one in _gone(parts_of, parts)}):
        if keys.of(obj, part).get(key) == value:
            path = jsonpatch.pointer("metadata", part, key)
            operations += [
                {"op": "test", "path": path, "value": value},
                {"op": "remove", "path": path},
            ]
    return operations


def _gone(
    before: Mapping[str, Mapping[str, str]], parts: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str, str]]:
    for part, values in before.items():
        for key, value in sorted(values.items()):
            if key not in parts.get(part, {}):
                yield part, key, value
