"""What tenants talk to: REST over TLS, credentials, and the intake of manifests (gateway.md)."""
