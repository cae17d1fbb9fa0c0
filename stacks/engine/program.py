"""The lease program: a `LeaseSpec` becomes the resources of one stack, after the policies saw the very objects."""

from __future__ import annotations

import pulumi

from components.lease import lease_objects
from components.resources.lease import Lease
from components.resources.manifest import Cluster
from lease.spec import LeaseSpec
from policies.judge import judge
from stacks.engine.config import EngineConfig
from stacks.engine.errors import OperationRefused

__all__ = ["check", "lease_program"]


def check(spec: LeaseSpec) -> None:
    """Judge what `spec` becomes. Raises `OperationRefused` with every mandatory finding; nothing is registered then."""
    findings = [found for found in judge(lease_objects(spec)) if found.mandatory]
    if findings:
        raise OperationRefused("refused by policy:\n" + "\n".join(str(found) for found in findings))


def lease_program(config: EngineConfig, spec: LeaseSpec) -> None:
    """Register the stack's resources; run by Pulumi as an inline program."""
    cluster = Cluster("cluster", kubeconfig=str(config.kubeconfig_copy), context=config.context)
    Lease(spec.namespace, spec, pulumi.ResourceOptions(provider=cluster, transformations=[_ignore_what_is_not_stored]))
    pulumi.export("namespace", spec.namespace)
    pulumi.export("spec-hash", spec.content_hash())


_NOT_STORED = "spec.updateStrategy.rollingUpdate.maxUnavailable"
"""The Go provider sends it and so do we; an API server without the gate MaxUnavailableStatefulSet drops it, and every
later update would find it missing."""


def _ignore_what_is_not_stored(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    if args.type_ != "kubernetes:apps/v1:StatefulSet":
        return None
    ignoring = pulumi.ResourceOptions(ignore_changes=[_NOT_STORED])
    return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, ignoring))
