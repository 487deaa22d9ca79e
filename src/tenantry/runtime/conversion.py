"""Conversion reviews: the API server asks for objects of a kind in another of its versions.

Pure. A `Convert` changes one object; around it stand the rules of the API server, so that a mistake
is refused here with a name rather than there with a riddle: kind, name, namespace and uid stay, and
of the metadata only labels and annotations may change. One failing object fails the whole review.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

GROUP_VERSION = "apiextensions.k8s.io/v1"

Object = dict[str, Any]
#: Object and wanted apiVersion in, the object in that version out; may change its argument.
Convert = Callable[[Object, str], Object]

_FREE = frozenset({"labels", "annotations"})


class ConversionRequest(msgspec.Struct, gc=False, kw_only=True):
    """Ask for objects in another version."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Object] = []


class Result(msgspec.Struct, gc=False, omit_defaults=True, kw_only=True):
    """Say how it went: Success or Failure, with a message for people."""

    status: str
    message: str = ""


class ConversionResponse(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """Answer with the objects in the order asked."""

    uid: str
    converted_objects: list[Object] = []
    result: Result


class Question(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """What comes; an empty `response`, which is sent along, is not looked at."""

    api_version: str = ""
    request: ConversionRequest | None = None


class Reply(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """What goes back."""

    api_version: str
    kind: str
    response: ConversionResponse


_QUESTION = msgspec.json.Decoder(Question)


def answer(body: bytes, convert: Convert) -> bytes:
    """Carry out a review.

    :raises ValueError: when the body is none
    """
    try:
        review = _QUESTION.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    request = review.request
    if review.api_version != GROUP_VERSION or request is None:
        raise ValueError(f"expected a request of {GROUP_VERSION} ConversionReview")
    try:
        converted = [_one(obj, request.desired, convert) for obj in request.objects]
    except Exception as error:
        response = ConversionResponse(
            uid=request.uid, result=Result(status="Failure", message=f"tenantry: {error}")
        )
    else:
        response = ConversionResponse(
            uid=request.uid, converted_objects=converted, result=Result(status="Success")
        )
    return msgspec.json.encode(
        Reply(api_version=GROUP_VERSION, kind="ConversionReview", response=response)
    )


def _one(obj: Object, desired: str, convert: Convert) -> Object:
    if obj.get("apiVersion") == desired:
        return obj
    kind, metadata = obj.get("kind"), copy.deepcopy(obj.get("metadata") or {})
    about = f"{kind} {metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        made = convert(obj, desired)
    except Exception as error:
        raise ValueError(f"{about} to {desired}: {error}") from error
    if made.get("apiVersion") != desired or made.get("kind") != kind:
        raise ValueError(
            f"{about} to {desired}: became {made.get('apiVersion')} {made.get('kind')}"
        )
    after = made.get("metadata") or {}
    for key in (metadata.keys() | after.keys()) - _FREE:
        if metadata.get(key) != after.get(key):
            raise ValueError(f"{about} to {desired}: metadata.{key} must not change")
    return made
