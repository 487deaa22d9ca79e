"""Controllers of the tenancy: read caches, call the pure functions, apply the result."""
