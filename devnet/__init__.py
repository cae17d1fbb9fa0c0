"""A whole provider's world on one machine: tools, control plane, chain, tenant.

For development and tests; the provider does not know it exists.
"""
