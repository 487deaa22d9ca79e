"""Hold the actions of a cycle, one module each; `registry` finds them by name."""
