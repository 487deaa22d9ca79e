"""`python launch.py <tenantry arguments>`: Tenantry with a lease that is lost in seconds.

A standby takes over when the leader's lease ran out, 15 s after its death, and room that nobody has
taken is free when the API server has given up the request, after 60 s; replicas look at the Secret
of their certificate once a minute. A test has no time for that.
Nothing else differs from `python -m tenantry`.
"""

from __future__ import annotations

from tenantry.apps import certificates
from tenantry.cli import main
from tenantry.runtime import timing
from tenantry.tenancy import reservations

#: Seconds for which room is held for a namespace that does not come.
LIFETIME = 10.0
#: Seconds between two looks at the certificate.
LOOK = 2.0
SHORT = {"lease": 7.0, "renew_deadline": 5.0, "lease_retry": 0.5, "write": 1.9}

if __name__ == "__main__":
    defaults = timing.Timing.__init__.__kwdefaults__
    assert defaults is not None
    assert SHORT.keys() <= defaults.keys()
    defaults.update(SHORT)
    held = reservations.NamespaceReservations.__init__.__kwdefaults__
    assert held is not None
    assert held["lifetime"] == reservations.REQUEST_TIMEOUT
    held["lifetime"] = LIFETIME
    certificates.POLL = LOOK
    main.main()
