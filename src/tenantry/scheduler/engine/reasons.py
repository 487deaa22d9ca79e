"""Why a job did not start, in a form that people and programs can read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"
NO_QUEUE = "QueueDoesNotExist"
DELAYED = "PreemptionDelayNotElapsed"
NOT_READY = "NotReady"
UNSCHEDULABLE = "PodSchedulingErrors"
TOPOLOGY = "TopologyUnsatisfied"
TOPOLOGY_CLUSTER = "TopologyInsufficientClusterResources"
TOPOLOGY_UNKNOWN = "TopologyDoesNotExist"
INVALID = "InvalidPodGroup"
INVALID_POD = "InvalidPod"
OVER_FAIR_SHARE = "OverFairShare"
NO_VICTIMS = "NoVictims"
OUTRANKED = "Outranked"
HELD = "Held"
RESERVED = "CapacityReserved"
INTERNAL = "InternalError"


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One reason; `details` hold the numbers of the message.

    :param remedy: what would make the job fit, in words
    """

    code: str
    message: str
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    remedy: str = ""
