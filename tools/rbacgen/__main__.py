"""Write the RBAC manifests under `deploy/rbac` from what the code declares it needs.

python tools/rbacgen          write
python tools/rbacgen --check  exit 1 when they are not current
"""

from __future__ import annotations

import sys
from pathlib import Path

from tenantry.apps import permissions
from tenantry.core import yamls

TARGET = Path(__file__).parents[2] / "src/tenantry/deploy/rbac/tenantry.yaml"
HEADER = "# Made by tools/rbacgen from the NEEDS declared in the code. Do not edit.\n"


def rendered() -> str:
    """Return the manifests as they should be on disk."""
    return f"{HEADER}---\n{yamls.write(*permissions.manifests())}"


def main() -> int:
    """Write or check; return the exit code."""
    if "--check" in sys.argv[1:]:
        return int(not TARGET.exists() or TARGET.read_text() != rendered())
    TARGET.write_text(rendered())
    return 0


if __name__ == "__main__":
    sys.exit(main())
