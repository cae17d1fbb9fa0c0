"""The dashboard: pages about the running provider for its operator, read-only, on a listener of their own."""
