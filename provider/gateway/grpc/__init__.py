"""The gRPC side of the gateway (gateway.md §5)."""
