"""Hold the plugins, one module each; `registry` finds them by name."""
