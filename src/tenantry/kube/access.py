"""Ask the API server who somebody is and what they may do. Reviews are answered, never stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenantry.api import admission, resources
from tenantry.kube import client as clients


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """What the authorisers say."""

    allowed: bool
    #: Why, as far as they tell; for people.
    reason: str = ""
    #: Some authorisers could not answer; the decision holds for the others.
    evaluation_error: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """One access to ask about; an empty `name` means any, an empty `namespace` all."""

    verb: str
    resource: resources.Resource | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: Instead of a resource: a path such as "/metrics".
    path: str = ""

    def attributes(self) -> dict[str, Any]:
        """Write the spec of an access review."""
        if self.resource is None:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        wanted = {
            "verb": self.verb,
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {"resourceAttributes": {key: value for key, value in wanted.items() if value}}


async def can_i(
    client: clients.Client, question: Question, *, timeout: float | None = None
) -> Decision:
    """Ask whether the client's own identity may do something."""
    return _decision(
        await client.create(
            resources.SELF_SUBJECT_ACCESS_REVIEWS,
            {"spec": question.attributes()},
            effect="none",
            timeout=timeout,
        )
    )


async def can(
    client: clients.Client,
    question: Question,
    *,
    user: str,
    groups: Sequence[str] = (),
    uid: str = "",
    extra: Mapping[str, Sequence[str]] | None = None,
    timeout: float | None = None,
) -> Decision:
    """Ask whether somebody else may do something."""
    spec = {**question.attributes(), "user": user, "groups": list(groups)}
    if uid:
        spec["uid"] = uid
    if extra:
        spec["extra"] = {key: list(values) for key, values in extra.items()}
    return _decision(
        await client.create(
            resources.SUBJECT_ACCESS_REVIEWS, {"spec": spec}, effect="none", timeout=timeout
        )
    )


async def who_am_i(client: clients.Client, *, timeout: float | None = None) -> admission.UserInfo:
    """Ask whom the server takes the client for, impersonation included."""
    answer = await client.create(resources.SELF_SUBJECT_REVIEWS, {}, effect="none", timeout=timeout)
    return msgspec.convert(answer["status"]["userInfo"], admission.UserInfo)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Authentication:
    """Whom a token stands for; `user` is None when the server does not accept it."""

    user: admission.UserInfo | None
    audiences: tuple[str, ...] = ()
    error: str = ""


async def review_token(
    client: clients.Client,
    token: str,
    *,
    audiences: Sequence[str] = (),
    timeout: float | None = None,
) -> Authentication:
    """Ask whom a token stands for.

    :param audiences: one of which the token must be for; by default the API server's own
    """
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    answer = await client.create(
        resources.TOKEN_REVIEWS, {"spec": spec}, effect="none", timeout=timeout
    )
    status = answer["status"]
    if not status.get("authenticated"):
        return Authentication(user=None, error=status.get("error") or "")
    return Authentication(
        user=msgspec.convert(status["user"], admission.UserInfo),
        audiences=tuple(status.get("audiences") or ()),
    )


def _decision(answer: Mapping[str, Any]) -> Decision:
    status = answer["status"]
    return Decision(
        allowed=bool(status.get("allowed")),
        reason=status.get("reason") or "",
        evaluation_error=status.get("evaluationError") or "",
    )
