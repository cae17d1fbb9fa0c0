"""Authentication and access of callers (gateway.md §2)."""
