"""Which host names and paths are in use, across namespaces, from memory (specs/capsule 5.6).

Two requests for one name at the same moment are told apart within one replica: what was accepted
a moment ago counts before the watch has shown it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from tenantry.api import resources
from tenantry.core import clock
from tenantry.directory import state as directory
from tenantry.runtime import admission, cluster, informer, permissions
from tenantry.tenancy.admission import ingresses
from tenantry.tenancy.policy import hostnames

NEEDS = (permissions.Need(resources.INGRESSES, permissions.READ),)

#: Seconds for which a name counts as taken by who asked for it, unless it is seen.
PENDING = 10.0
_MOST_PENDING = 10_000
_INDEX = "host and path"

Pair = tuple[str, str]


class Hostnames:
    """The names in use."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: directory.Directory,
        *,
        now: clock.Clock = clock.monotonic,
    ) -> None:
        """Ask for the informer; it begins when `source` is started."""
        self._directory = known
        self._now = now
        self._pending: OrderedDict[Pair, tuple[tuple[str, str], float]] = OrderedDict()
        self._ingresses: informer.Informer[hostnames.View] = source.informer(
            resources.INGRESSES, hostnames.view
        )
        self._ingresses.add_index(_INDEX, lambda one: [_key(pair) for pair in one.pairs])

    def taken(
        self, review: admission.Review, rules: hostnames.HostRules, *, claim: bool
    ) -> list[Pair]:
        """Return which names of an Ingress others have already.

        :param claim: the names are this object's from now on, if nobody has them
        """
        if rules.scope == hostnames.DISABLED or not ingresses.is_ingress(review):
            return []
        before = hostnames.pairs(review.old)
        asked = [pair for pair in hostnames.pairs(review.object) if pair not in before]
        mine = (review.namespace, review.name)
        matters = self._scope(review, rules)
        found = [pair for pair in asked if self._others(pair, mine, matters)]
        if claim and not found and not review.dry_run and review.name:
            for pair in asked:
                self._pending[pair] = (mine, self._now() + PENDING)
                self._pending.move_to_end(pair)
            while len(self._pending) > _MOST_PENDING:
                self._pending.popitem(last=False)
        return found

    def _others(self, pair: Pair, mine: tuple[str, str], matters: Callable[[str], bool]) -> bool:
        owner, until = self._pending.get(pair, (mine, 0.0))
        if until <= self._now():
            self._pending.pop(pair, None)
        elif owner != mine and matters(owner[0]):
            return True
        return any(
            (one.namespace, one.name) != mine and matters(one.namespace)
            for one in self._ingresses.by_index(_INDEX, _key(pair))
        )

    def _scope(self, review: admission.Review, rules: hostnames.HostRules) -> Callable[[str], bool]:
        if rules.scope == hostnames.NAMESPACE:
            return lambda namespace: namespace == review.namespace
        if rules.scope == hostnames.TENANT:
            return lambda namespace: self._directory.tenant_of(namespace) == rules.tenant
        return lambda namespace: self._directory.tenant_of(namespace) is not None


def _key(pair: Pair) -> str:
    return "\0".join(pair)
