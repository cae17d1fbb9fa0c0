"""The lease program: a `LeaseSpec` becomes the resources of one stack, after the policies judged the same objects."""

from __future__ import annotations

import pulumi

from components.lease import lease_objects
from components.resources.lease import LeaseComponent
from components.resources.manifest import ClusterProvider
from lease.spec import LeaseSpec
from policies.book import rule_book
from policies.choices import PolicyChoices
from policies.facts import facts_of
from stacks.common.config import EngineConfig
from stacks.common.errors import OperationRefused

__all__ = ["check", "lease_program"]


def check(spec: LeaseSpec, choices: PolicyChoices = PolicyChoices()) -> None:  # noqa: B008 (frozen)
    """Judge the objects of `spec`. Raises `OperationRefused` with every mandatory violation; nothing is registered
    then. `choices`: the operator's; rules that are no fences have judged a new version before it came here.
    """
    judged = rule_book(choices).judge(lease_objects(spec), form=spec.form, lease=facts_of(spec), fences=True)
    findings = [found for found in judged if found.mandatory]
    if findings:
        raise OperationRefused("refused by policy:\n" + "\n".join(str(found) for found in findings))


def lease_program(config: EngineConfig, spec: LeaseSpec) -> None:
    """Register the stack's resources; run by Pulumi as an inline program."""
    cluster = ClusterProvider("cluster", kubeconfig=config.named_kubeconfig, context=config.context)
    options = pulumi.ResourceOptions(provider=cluster, transformations=[_ignore_what_is_not_stored])
    LeaseComponent(spec.namespace, spec, options)
    pulumi.export("namespace", spec.namespace)
    pulumi.export("spec-hash", spec.content_hash())


_NOT_STORED = "spec.updateStrategy.rollingUpdate.maxUnavailable"
"""A field that the Go provider sends and Lessor too. An API server without the gate MaxUnavailableStatefulSet drops it,
and every later update would find it missing.
"""


def _ignore_what_is_not_stored(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    if args.type_ != "kubernetes:apps/v1:StatefulSet":
        return None
    ignoring = pulumi.ResourceOptions(ignore_changes=[_NOT_STORED])
    return pulumi.ResourceTransformationResult(args.props, pulumi.ResourceOptions.merge(args.opts, ignoring))
