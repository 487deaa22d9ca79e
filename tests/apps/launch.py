"""`python launch.py <tenantry arguments>`: Tenantry with a lease that is lost in seconds.

A standby takes over when the leader's lease ran out, 15 s after its death; a test has no time for
that. Nothing else differs from `python -m tenantry`.
"""

from __future__ import annotations

from tenantry.cli import main
from tenantry.runtime import timing

SHORT = {"lease": 7.0, "renew_deadline": 5.0, "lease_retry": 0.5, "write": 1.9}

if __name__ == "__main__":
    defaults = timing.Timing.__init__.__kwdefaults__
    assert defaults is not None
    assert SHORT.keys() <= defaults.keys()
    defaults.update(SHORT)
    main.main()
