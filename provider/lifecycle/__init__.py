"""From a lease on the chain to a stack in the cluster, and back to nothing (docs/architecture.md §2)."""
