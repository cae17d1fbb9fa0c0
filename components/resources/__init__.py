"""The Pulumi side: component resources that register the very manifests of `components.lease`.

Everything in this package imports Pulumi; nothing outside it does. Only the stack worker imports it.
"""
