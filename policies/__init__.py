"""Rules that no Kubernetes object of a lease may break.

Each rule is a pure function over plain manifests; there is one module for each topic, listed in `policies.judge`. The
worker judges a lease's objects before it registers them, and the pack in `policies.pack` gives the same rules to
`pulumi preview`.
"""
