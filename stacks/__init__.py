"""How is it applied? The cluster program, the lease program and the engine that runs lease stacks."""
