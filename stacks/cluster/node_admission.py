"""The fence around the inventory operator's account: of a node it changes only the labels that the operator manages.

The right to patch nodes could taint or cordon every node of the cluster. Needs Kubernetes 1.30.
"""

from __future__ import annotations

from pulumi_kubernetes.admissionregistration.v1 import (
    MatchConditionArgs,
    MatchResourcesArgs,
    NamedRuleWithOperationsArgs,
    ValidatingAdmissionPolicySpecArgs,
    ValidationArgs,
)

from stacks.cluster.inventory_rights import INVENTORY_CONTAINER

__all__ = ["NODE_POLICY", "node_policy_spec"]

NODE_POLICY = "lessor-inventory"
_OWN = "key == 'akash.network' || key.startsWith('akash.network/') || key == 'nvidia.com/gpu.present'"


def _unchanged(part: str) -> str:
    """CEL: each key of labels or annotations that is not managed is as it was, in both directions."""
    new, old = (f"(has({name}.metadata.{part}) ? {name}.metadata.{part} : {{}})" for name in ("object", "oldObject"))
    both = [
        f"{mine}.all(key, {_OWN} || (key in {other} && {mine}[key] == {other}[key]))"
        for mine, other in ((new, old), (old, new))
    ]
    return " && ".join(both)


def node_policy_spec(namespace: str) -> ValidatingAdmissionPolicySpecArgs:
    """The policy for the writes of the operator's account in `namespace`, and of no one else."""
    user = f"system:serviceaccount:{namespace}:{INVENTORY_CONTAINER}"
    nodes = NamedRuleWithOperationsArgs(
        api_groups=[""], api_versions=["*"], operations=["CREATE", "UPDATE", "DELETE"], resources=["nodes", "nodes/*"]
    )
    rules = {
        "the account changes nodes, and makes and deletes none": "request.operation == 'UPDATE'",
        "the account changes no spec of a node": "object.spec == oldObject.spec",
        "the account changes the managed labels of a node only": _unchanged("labels"),
        "the account changes its own annotations of a node only": _unchanged("annotations"),
    }
    return ValidatingAdmissionPolicySpecArgs(
        failure_policy="Fail",
        match_constraints=MatchResourcesArgs(resource_rules=[nodes]),
        match_conditions=[MatchConditionArgs(name="inventory", expression=f"request.userInfo.username == '{user}'")],
        validations=[ValidationArgs(message=message, expression=text) for message, text in rules.items()],
    )
