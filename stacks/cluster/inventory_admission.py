"""The fence around the inventory operator's account: it changes managed labels of nodes and makes discovery pods only.

The right to patch nodes could taint or cordon every node of the cluster. A pod in the provider's own namespace could
have the provider's account and the Secret with its key. Needs Kubernetes 1.30.
"""

from __future__ import annotations

from pulumi_kubernetes.admissionregistration.v1 import (
    MatchConditionArgs,
    MatchResourcesArgs,
    NamedRuleWithOperationsArgs,
    ValidatingAdmissionPolicySpecArgs,
    ValidationArgs,
)

from stacks.cluster.inventory_rights import DISCOVERY_ACCOUNT, DISCOVERY_POD, INVENTORY_CONTAINER

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


_ON_NODES = "request.resource.resource != 'nodes' || "
_ON_PODS = "request.resource.resource != 'pods' || request.operation == 'DELETE' || "
_POD = "object.spec"
_DISCOVERY = {
    "the account makes, changes and deletes discovery pods only": (
        f"request.resource.resource != 'pods' || request.name.startsWith('{DISCOVERY_POD}') "
        f"|| (request.name == '' && object.metadata.name.startsWith('{DISCOVERY_POD}'))"
    ),
    "a discovery pod has no rights": (
        f"{_ON_PODS}({_POD}.serviceAccountName == '{DISCOVERY_ACCOUNT}' "
        f"&& has({_POD}.automountServiceAccountToken) && !{_POD}.automountServiceAccountToken)"
    ),
    "a discovery pod has no part of its node and no Secret": (
        f"{_ON_PODS}((!has({_POD}.hostNetwork) || !{_POD}.hostNetwork) && (!has({_POD}.hostPID) || !{_POD}.hostPID) "
        f"&& (!has({_POD}.hostIPC) || !{_POD}.hostIPC) && (!has({_POD}.initContainers) || "
        f"{_POD}.initContainers.size() == 0) && {_POD}.containers.all(item, !has(item.envFrom) "
        "&& (!has(item.env) || item.env.all(one, !has(one.valueFrom)))) && {volumes})"
    ),
}
_PLAIN = (
    f"(!has({_POD}.volumes) || {_POD}.volumes.size() == 0) && {_POD}.containers.all(item, has(item.securityContext) "
    "&& (!has(item.securityContext.privileged) || !item.securityContext.privileged) "
    "&& has(item.securityContext.runAsNonRoot) && item.securityContext.runAsNonRoot)"
)
_PRIVILEGED = (
    f"(!has({_POD}.volumes) || {_POD}.volumes.all(volume, has(volume.hostPath))) && {_POD}.containers.all(item, "
    "!has(item.volumeMounts) || item.volumeMounts.all(one, has(one.readOnly) && one.readOnly))"
)


def node_policy_spec(namespace: str, *, privileged: bool = False) -> ValidatingAdmissionPolicySpecArgs:
    """The policy for the writes of the operator's account in `namespace`, and of no one else. `privileged`: discovery
    pods may read the node's files.
    """
    user = f"system:serviceaccount:{namespace}:{INVENTORY_CONTAINER}"
    written = NamedRuleWithOperationsArgs(
        api_groups=[""],
        api_versions=["*"],
        operations=["CREATE", "UPDATE", "DELETE"],
        resources=["nodes", "nodes/*", "pods", "pods/ephemeralcontainers"],
    )
    rules = {
        "the account changes nodes, and makes and deletes none": f"{_ON_NODES}request.operation == 'UPDATE'",
        "the account changes no spec of a node": f"{_ON_NODES}object.spec == oldObject.spec",
        "the account changes the managed labels of a node only": f"{_ON_NODES}({_unchanged('labels')})",
        "the account changes its own annotations of a node only": f"{_ON_NODES}({_unchanged('annotations')})",
    } | {
        message: text.replace("{volumes}", _PRIVILEGED if privileged else _PLAIN)
        for message, text in _DISCOVERY.items()
    }
    return ValidatingAdmissionPolicySpecArgs(
        failure_policy="Fail",
        match_constraints=MatchResourcesArgs(resource_rules=[written]),
        match_conditions=[MatchConditionArgs(name="inventory", expression=f"request.userInfo.username == '{user}'")],
        validations=[ValidationArgs(message=message, expression=text) for message, text in rules.items()],
    )
