"""Tenants between v1beta1 and v1beta2; pure (docs/designs/v1beta1.md).

v1beta1 says less. What it says in annotations becomes fields; what it cannot say at all is kept in
an annotation of ours, so that nobody who writes the old version takes away what is in the new one.
To v1beta1 never fails, or one object would keep all from being listed. From v1beta1, our annotation
is a user's text like any other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from tenantry.api.capsule import constants, tenant
from tenantry.core import errors

Object = dict[str, Any]

OLD = f"{constants.GROUP}/v1beta1"
NEW = constants.API_VERSION
#: As much as the API server lets all annotations of an object be.
LONGEST = 256 * 1024

_CLASSES: Object = {"allowed": None, "allowedRegex": None}
#: What v1beta1 can say: None is the whole field as v1beta2 says it.
SHAPE: Object = {
    "namespaceOptions": {"quota": None, "additionalMetadata": None},
    "serviceOptions": {"additionalMetadata": None, "allowedServices": None, "externalIPs": None},
    "storageClasses": _CLASSES,
    "priorityClasses": _CLASSES,
    "ingressOptions": {
        "allowedClasses": _CLASSES,
        "hostnameCollisionScope": None,
        "allowedHostnames": None,
    },
    "containerRegistries": None,
    "imagePullPolicies": None,
    "nodeSelector": None,
    "networkPolicies": None,
    "limitRanges": None,
    "resourceQuotas": None,
    "additionalRoleBindings": None,
}
_PROXIED = frozenset({"Nodes", "StorageClasses", "IngressClasses", "PriorityClasses"})


#: Before an owner's place or name.
_ROLES = f"{constants.OWNER_ROLES_ANNOTATION}/"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A field that v1beta1 says in an annotation."""

    path: tuple[str, ...]
    #: Annotation, None for none -> value of the field.
    read: Callable[[str | None], Any]
    #: Value -> annotation.
    write: Callable[[Any], str | None]


def _truth(value: str | None) -> bool:
    return value is not None and value.strip().lower() in {"1", "t", "true", "enabled"}


def _names(value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


def _joined(value: Any) -> str | None:
    return ",".join(str(name) for name in value) if isinstance(value, list) and value else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _yes(value: Any) -> str | None:
    return constants.TRUE if value is True else None


def _list(*path: str) -> Said:
    return Said(path=path, read=_names, write=_joined)


def _expression(*path: str) -> Said:
    return Said(path=path, read=lambda value: value or "", write=_text)


_LABELS, _ANNOTATIONS = "forbiddenLabels", "forbiddenAnnotations"
SAID: dict[str, Said] = {
    constants.CORDON_ANNOTATION: Said(path=("cordoned",), read=_truth, write=_yes),
    constants.PROTECTED_ANNOTATION: Said(
        path=("preventDeletion",), read=lambda value: value is not None, write=_yes
    ),
    constants.DENY_WILDCARD_ANNOTATION: Said(
        path=("ingressOptions", "allowWildcardHostnames"),
        read=lambda value: value != constants.TRUE,
        write=lambda value: None if value is True else constants.TRUE,
    ),
    constants.FORBIDDEN_LABELS_ANNOTATION: _list("namespaceOptions", _LABELS, "denied"),
    constants.FORBIDDEN_LABELS_REGEX_ANNOTATION: _expression(
        "namespaceOptions", _LABELS, "deniedRegex"
    ),
    constants.FORBIDDEN_ANNOTATIONS_ANNOTATION: _list("namespaceOptions", _ANNOTATIONS, "denied"),
    constants.FORBIDDEN_ANNOTATIONS_REGEX_ANNOTATION: _expression(
        "namespaceOptions", _ANNOTATIONS, "deniedRegex"
    ),
}


class Kept(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What v1beta1 cannot say of a Tenant."""

    spec: Object = {}
    #: Annotations that say something else in v1beta1, as v1beta2 has them; None: it does not.
    annotations: dict[str, str | None] = {}


_KEPT = msgspec.json.Decoder(Kept)


def convert(obj: Object, desired: str) -> Object:
    """Return a Tenant in another version.

    :raises InvalidValueError: when what was kept is not what we wrote
    """
    if desired == OLD and obj.get("apiVersion") == NEW:
        return to_v1beta1(copy.deepcopy(obj))
    if desired == NEW and obj.get("apiVersion") == OLD:
        return to_v1beta2(copy.deepcopy(obj))
    raise errors.InvalidValueError("apiVersion", str(desired), f"{OLD} or {NEW}")


def to_v1beta1(obj: Object) -> Object:
    """Say in v1beta1 what can be said there, and keep the rest."""
    annotations = _annotations(obj)
    annotations.pop(constants.KEPT_ANNOTATION, None)
    spec, kept = _object(obj.get("spec")), Kept(spec={}, annotations={})
    shown, rest = _split(spec, SHAPE)
    owners = shown.pop("owners", rest.pop("owners", None))
    for key, said in SAID.items():
        value, have = _get(rest, said.path), annotations.get(key)
        want = said.write(value)
        if want != have and said.read(have) != said.read(want):
            kept.annotations[key] = have
            _put(annotations, key, want)
        if value is not None and value == said.read(annotations.get(key)) and value:
            # The annotation says it all.
            _drop(rest, said.path)
    for key in [key for key in annotations if key.startswith(_ROLES)]:
        owner = _owner_of(key, owners)
        if owner is None or owner.get("clusterRoles") != _names(annotations[key]):
            kept.annotations[key] = annotations.pop(key)
    if isinstance(owners, list):
        shown["owners"] = [_shown_owner(owner) for owner in owners if isinstance(owner, dict)]
        if shown["owners"] != owners:
            rest["owners"] = owners
    elif owners is not None:
        rest["owners"] = owners
    kept.spec = rest
    if kept.spec or kept.annotations:
        annotations[constants.KEPT_ANNOTATION] = msgspec.json.encode(kept, order="sorted").decode()
    return _with(obj, OLD, shown, annotations)


def to_v1beta2(obj: Object) -> Object:
    """Say in v1beta2 what v1beta1 says and what was kept."""
    annotations = _annotations(obj)
    kept = _read(annotations.pop(constants.KEPT_ANNOTATION, None))
    shown = _object(obj.get("spec"))
    owners, before = shown.pop("owners", None), kept.spec.pop("owners", None)
    spec = _join(shown, kept.spec, SHAPE)
    for key, said in SAID.items():
        value, have = _get(spec, said.path), annotations.get(key)
        if have != said.write(value) and said.read(have) != said.read(said.write(value)):
            value = said.read(have)
            _set(spec, said.path, value)
        if key in kept.annotations and have == said.write(value):
            _put(annotations, key, kept.annotations[key])
    if owners is not None:
        spec["owners"] = _owners(owners, before if isinstance(before, list) else [])
    for key in [key for key in annotations if key.startswith(_ROLES)]:
        owner, roles = _owner_of(key, spec.get("owners")), _names(annotations[key])
        if owner is not None and roles:
            owner["clusterRoles"] = roles
    for key, text in kept.annotations.items():
        if key.startswith(_ROLES) and text is not None:
            annotations.setdefault(key, text)
    try:
        msgspec.convert(spec, tenant.TenantSpec)
    except msgspec.ValidationError as error:
        raise _refused(f"of a Tenant: {error}") from error
    return _with(obj, NEW, spec, annotations)


def _refused(problem: str) -> errors.InvalidValueError:
    return errors.InvalidValueError(
        f"metadata.annotations[{constants.KEPT_ANNOTATION}]",
        problem,
        "what was written there, or none: without it the fields of v1beta2 are given up",
    )


def _read(text: Any) -> Kept:
    if text is None:
        return Kept(spec={}, annotations={})
    if not isinstance(text, str) or len(text) > LONGEST:
        raise _refused("too long")
    try:
        kept = _KEPT.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refused(str(error)) from error
    for key in kept.annotations:
        if key not in SAID and not key.startswith(_ROLES):
            raise _refused(f"annotation {key[:100]}")
    known = {field.encode_name for field in msgspec.structs.fields(tenant.TenantSpec)}
    for key in kept.spec.keys() - known:
        raise _refused(f"field {key[:100]}")
    return Kept(spec=kept.spec, annotations=kept.annotations)


def _split(value: Object, shape: Object) -> tuple[Object, Object]:
    """Return what a shape can hold, and the rest."""
    shown: Object = {}
    rest: Object = {}
    for key, item in value.items():
        below = shape.get(key)
        if key not in shape:
            rest[key] = item
        elif below is None or not isinstance(item, dict):
            shown[key] = item
        else:
            inner, more = _split(item, below)
            if more:
                rest[key] = more
            if inner or not more:
                shown[key] = inner
    return shown, rest


def _join(shown: Object, rest: Object, shape: Object) -> Object:
    """Undo `_split`; what the shape can hold comes from what is shown alone."""
    result = dict(shown)
    for key, item in rest.items():
        below = shape.get(key)
        if key not in shape:
            result[key] = item
        elif below is not None and isinstance(item, dict):
            result[key] = _join(_object(result.get(key)), item, below)
    return result


def _shown_owner(owner: Object) -> Object:
    shown: Object = {key: owner[key] for key in ("kind", "name") if key in owner}
    settings = owner.get("proxySettings")
    if isinstance(settings, list):
        shown["proxySettings"] = [each for each in settings if _is_proxied(each)]
    return shown


def _is_proxied(setting: Any) -> bool:
    return isinstance(setting, dict) and setting.get("kind") in _PROXIED


def _owners(shown: Any, before: list[Any]) -> Any:
    """Give owners back what v1beta1 cannot say of them; by who they are, not by their place."""
    if not isinstance(shown, list):
        return shown
    left = [owner for owner in before if isinstance(owner, dict)]
    result = []
    for owner in shown:
        if not isinstance(owner, dict):
            return shown
        who = (owner.get("kind"), owner.get("name"))
        found = next((o for o in left if (o.get("kind"), o.get("name")) == who), None)
        if found is None:
            result.append(owner)
            continue
        left.remove(found)
        settings = owner.get("proxySettings")
        whole = {**found, **owner}
        if _shown_owner(found).get("proxySettings") == settings:
            whole["proxySettings"] = found.get("proxySettings")
        else:
            others = [s for s in found.get("proxySettings") or () if not _is_proxied(s)]
            whole["proxySettings"] = [*(settings or ()), *others]
        if whole["proxySettings"] is None:
            del whole["proxySettings"]
        result.append(whole)
    return result


def _owner_of(key: str, owners: Any) -> Object | None:
    """Return the owner that an annotation of roles is about: by place, or `<kind>.<name>`."""
    which = key.removeprefix(_ROLES)
    found = [owner for owner in owners or () if isinstance(owner, dict)]
    if which.isascii() and which.isdigit():
        place = int(which[:9])
        return found[place] if place < len(found) else None
    for owner in found:
        if f"{owner.get('kind')}.{owner.get('name')}".lower() == which.lower():
            return owner
    return None


def _object(value: Any) -> Object:
    return dict(value) if isinstance(value, dict) else {}


def _annotations(obj: Object) -> Object:
    return _object(_object(obj.get("metadata")).get("annotations"))


def _with(obj: Object, version: str, spec: Object, annotations: Object) -> Object:
    metadata = _object(obj.get("metadata"))
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    said = {"spec": spec} if spec or "spec" in obj else {}
    return {**obj, "apiVersion": version, "metadata": metadata, **said}


def _put(mapping: Object, key: str, value: Any) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _get(mapping: Object, path: tuple[str, ...]) -> Any:
    found: Any = mapping
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _set(mapping: Object, path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        below = mapping[part] = _object(mapping.get(part))
        mapping = below
    mapping[path[-1]] = value


def _drop(mapping: Object, path: tuple[str, ...]) -> None:
    """Remove a value, and what holds nothing else."""
    if len(path) > 1:
        _drop(mapping[path[0]], path[1:])
        if mapping[path[0]]:
            return
    del mapping[path[0]]
