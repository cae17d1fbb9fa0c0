"""The Pulumi stacks: the cluster program, the lease program, and the engine that runs lease stacks."""
