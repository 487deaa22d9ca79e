"""What an error of a list or watch means to the reflector; pure."""

from __future__ import annotations

import msgspec

from tenantry.kube import errors
from tenantry.runtime import reflector


def meaning(error: Exception) -> reflector.Failed | None:
    """Give the input that an error is, None when it is none that a server can cause."""
    if isinstance(error, errors.ApiError):
        failure = reflector.Failure.OTHER
        # Not found: the kind itself went; when it comes back, it may be another of that name.
        if isinstance(error, errors.Gone | errors.NotFound):
            failure = reflector.Failure.GONE
        elif isinstance(error, errors.BadRequest | errors.Invalid):
            failure = reflector.Failure.UNSUPPORTED
        return reflector.Failed(failure, error.retry_after or 0.0)
    if isinstance(error, errors.KubeError | msgspec.MsgspecError | OSError):
        return reflector.Failed(reflector.Failure.OTHER)
    return None
