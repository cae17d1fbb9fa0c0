"""What must never be?

Rules over plain Kubernetes manifests: pure functions, one module a topic, listed in `policies.judge`. The worker judges
a lease's objects before it registers them; the pack in `policies.pack` hands the same rules to `pulumi preview`.
"""
