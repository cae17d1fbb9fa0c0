"""The IP operator: the state and the usage of leased addresses, over HTTP and gRPC (operators.md §3)."""
