"""Rules that no Kubernetes object of a lease, and none of the cluster stack, may break.

Each rule is a pure function over plain manifests; there is one module for each topic, listed in `policies.judge`. One
function judges in three places: the provider judges a manifest when it arrives, the worker judges a lease's objects
before it registers them, and `lessor policy audit` judges what was recorded and what runs. The pack in `policies.pack`
gives the same rules to `pulumi preview`.
"""
