"""What does a lease become in Kubernetes?

Pure builders (spec in, plain manifests out) and, in `components.resources`, the Pulumi components that register them.
"""
