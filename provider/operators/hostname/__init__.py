"""The hostname operator: the state and the health of every hostname claim, over HTTP and gRPC (operators.md §4)."""
