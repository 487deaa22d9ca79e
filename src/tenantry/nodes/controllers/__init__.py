"""Controllers of dedicated nodes: read caches, call the pure functions, apply the result."""
