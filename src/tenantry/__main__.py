"""Run the command line as `python -m tenantry`."""

from __future__ import annotations

from tenantry.cli import main

if __name__ == "__main__":
    main.main()
