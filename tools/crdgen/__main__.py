from __future__ import annotations

import importlib
import sys
from pathlib import Path

# Run by directory, so that neither an installed package nor PYTHONPATH is needed.
sys.path.insert(0, str(Path(__file__).parents[2]))
sys.exit(importlib.import_module("tools.crdgen.command").main())
