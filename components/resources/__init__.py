"""The Pulumi components that register the manifests of `components.lease`.

Everything in this package imports Pulumi, and nothing else in `components` does. Only the stack worker imports it.
"""
