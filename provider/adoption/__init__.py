"""The adoption of a cluster that another provider runs: its leases become stacks, and nothing of them changes."""
