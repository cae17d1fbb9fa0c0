"""The Kubernetes objects of a lease.

Pure builders take a spec and return plain manifests. `components.resources` holds the Pulumi components that register
them.
"""
