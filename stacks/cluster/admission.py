"""The fence around the provider's own account: a ValidatingAdmissionPolicy.

Rights cannot be bound to names that do not exist yet, so the account may write Deployments, Roles and Secrets in every
namespace. Whoever has it could become cluster-admin: by a Secret that is a token of another account, by a pod of one,
or by a Role that it binds to itself. The API server refuses what is outside the namespaces of leases, the provider's
records and its address pools, and what a lease is never made of. Needs Kubernetes 1.30.
"""

from __future__ import annotations

from pulumi_kubernetes.admissionregistration.v1 import (
    MatchConditionArgs,
    MatchResourcesArgs,
    NamedRuleWithOperationsArgs,
    ValidatingAdmissionPolicyBindingSpecArgs,
    ValidatingAdmissionPolicySpecArgs,
    ValidationArgs,
    VariableArgs,
)

from stacks.cluster.settings import ClusterStackSettings

__all__ = [
    "CERTIFICATE_SECRET",
    "NAME",
    "RELEASES_SECRET",
    "VALIDATIONS",
    "VARIABLES",
    "policy_binding",
    "policy_spec",
    "validations",
]

NAME = "lessor-provider"
RELEASES_SECRET = "released-hostnames"  # noqa: S105 (an object's name)
"""In the namespace of the records: the owners that released hostnames are kept for."""
CERTIFICATE_SECRET = "lessor-certificate"  # noqa: S105 (an object's name)
"""The Secret in which the provider keeps its account certificate, in the namespace of its own processes."""
_LEASE = "matches('^[0-9a-v]{45}$')"
"""The name of a lease's namespace: base32hex of SHA-224 (kubernetes-objects.md §1.1)."""
_CAPABILITIES = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
]
"""What the Pod Security level `baseline` lets a container add: what runtimes give by default."""

VARIABLES = {
    # an object of the cluster has no such key, and a comparison with it refuses the request
    "space": "has(request.namespace) ? request.namespace : ''",
    "name": "request.name != '' ? request.name : object.metadata.name",
    "isNamespace": "request.resource.group == '' && request.resource.resource == 'namespaces'",
    "existing": "request.operation == 'DELETE' ? oldObject : object",
    "mine": "has(variables.existing.metadata.labels) && 'akash.network' in variables.existing.metadata.labels",
    "labels": "has(variables.existing.metadata.labels) ? variables.existing.metadata.labels : {}",
    "inLease": (
        f"!variables.isNamespace && variables.space.{_LEASE} && namespaceObject != null "
        "&& has(namespaceObject.metadata.labels) && 'akash.network' in namespaceObject.metadata.labels"
    ),
    "pod": (
        "request.resource.group == 'apps' && request.operation != 'DELETE' && has(object.spec.template) "
        "? object.spec.template.spec : object"
    ),
    "containers": (
        "request.resource.group == 'apps' && request.operation != 'DELETE' && has(variables.pod.containers) "
        "? variables.pod.containers + (has(variables.pod.initContainers) ? variables.pod.initContainers : []) : []"
    ),
}
"""CEL by name; a variable may use those before it."""

VALIDATIONS = (
    (
        "the account writes only in namespaces of leases, its records, its certificate and its address pools",
        "variables.space == '' || variables.isNamespace || variables.inLease "
        "|| (variables.space == '{manifests}' && (request.resource.group == 'akash.network' "
        "|| (request.resource.group == 'coordination.k8s.io' && request.operation != 'DELETE') "
        "|| (request.resource.resource == 'secrets' && (variables.name.startsWith('applied-') "
        f"|| variables.name == '{RELEASES_SECRET}')))) "
        "|| (variables.space == '{services}' && request.resource.resource == 'secrets' "
        f"&& variables.name == '{CERTIFICATE_SECRET}' && request.operation != 'DELETE') "
        "|| (variables.space == '{metallb}' && request.resource.group == 'metallb.io' "
        "&& variables.name.startsWith('ip-'))",
    ),
    (
        "the account makes and ends namespaces of leases only, and none at the admission level privileged",
        f"!variables.isNamespace || (variables.name.{_LEASE} && variables.mine "
        "&& (!('pod-security.kubernetes.io/enforce' in variables.labels) "
        "|| variables.labels['pod-security.kubernetes.io/enforce'] in ['baseline', 'restricted']))",
    ),
    (
        "of the cluster's own objects the account changes volumes of leases only",
        "variables.space != '' || variables.isNamespace || (request.resource.resource == 'persistentvolumes' "
        "&& request.operation == 'UPDATE' && has(oldObject.spec.claimRef) "
        f"&& oldObject.spec.claimRef.namespace.{_LEASE} && has(object.spec.claimRef) "
        f"&& object.spec.claimRef.namespace.{_LEASE})",
    ),
    (
        "a Secret of the account is no token of a service account",
        "request.resource.resource != 'secrets' || request.operation == 'DELETE' || !has(object.type) "
        "|| object.type != 'kubernetes.io/service-account-token'",
    ),
    (
        "a Role of a lease reads pods, logs, deployments and events",
        "request.resource.resource != 'roles' || request.operation == 'DELETE' || !has(object.rules) "
        "|| object.rules.all(rule, rule.verbs.all(verb, verb in ['get', 'list', 'watch']) && has(rule.resources) "
        "&& rule.resources.all(resource, resource in ['pods', 'pods/log', 'deployments', 'events']))",
    ),
    (
        "a RoleBinding of a lease gives a Role to an account of the same namespace",
        "request.resource.resource != 'rolebindings' || request.operation == 'DELETE' "
        "|| (object.roleRef.kind == 'Role' && has(object.subjects) && object.subjects.all(subject, "
        "subject.kind == 'ServiceAccount' && has(subject.namespace) && subject.namespace == variables.space))",
    ),
    (
        "a Service of a lease is no other name of a foreign host",
        "request.resource.resource != 'services' || request.operation == 'DELETE' "
        "|| ((!has(object.spec.type) || object.spec.type != 'ExternalName') && !has(object.spec.externalIPs))",
    ),
    (
        "a pod of a lease has no part of its node",
        "request.resource.group != 'apps' || request.operation == 'DELETE' "
        "|| ((!has(variables.pod.hostNetwork) || !variables.pod.hostNetwork) "
        "&& (!has(variables.pod.hostPID) || !variables.pod.hostPID) "
        "&& (!has(variables.pod.hostIPC) || !variables.pod.hostIPC) "
        "&& (!has(variables.pod.volumes) || variables.pod.volumes.all(volume, !has(volume.hostPath))) "
        "&& variables.containers.all(item, !has(item.ports) || item.ports.all(port, !has(port.hostPort) "
        "|| port.hostPort == 0)))",
    ),
    (
        "a container of a lease has no rights over its node",
        "variables.containers.all(item, !has(item.securityContext) "
        "|| ((!has(item.securityContext.privileged) || !item.securityContext.privileged) "
        "&& (!has(item.securityContext.procMount) || item.securityContext.procMount == 'Default') "
        "&& (!has(item.securityContext.seccompProfile) || item.securityContext.seccompProfile.type != 'Unconfined') "
        "&& (!has(item.securityContext.capabilities) || !has(item.securityContext.capabilities.add) "
        f"|| item.securityContext.capabilities.add.all(name, name in {_CAPABILITIES}))))",
    ),
    (
        "a pod is made by its controller, and the account makes one as a dry run only",
        "request.resource.resource != 'pods' || request.operation == 'DELETE' "
        "|| (has(request.dryRun) && request.dryRun)",
    ),
    (
        "an Ingress of a lease has no configuration of the edge in its annotations",
        "request.resource.resource != 'ingresses' || request.operation == 'DELETE' "
        "|| !has(object.metadata.annotations) "
        "|| object.metadata.annotations.all(key, !key.endsWith('-snippet') && !key.endsWith('-snippets'))",
    ),
)
"""What is allowed, with the text of the refusal; names in braces are namespaces of the settings."""


def validations(settings: ClusterStackSettings) -> list[tuple[str, str]]:
    """Message and CEL expression of each validation."""
    spaces = {
        "{manifests}": settings.manifest_namespace,
        "{metallb}": settings.metallb.namespace,
        "{services}": settings.services_namespace,
    }
    filled = []
    for message, text in VALIDATIONS:
        expression = text
        for word, space in spaces.items():
            expression = expression.replace(word, space)
        filled.append((message, expression))
    return filled


def policy_spec(settings: ClusterStackSettings) -> ValidatingAdmissionPolicySpecArgs:
    """The policy for the writes of the provider's account, and of no one else."""
    user = f"system:serviceaccount:{settings.services_namespace}:{settings.service_account}"
    everything = NamedRuleWithOperationsArgs(
        api_groups=["*"], api_versions=["*"], operations=["CREATE", "UPDATE", "DELETE"], resources=["*/*"]
    )
    return ValidatingAdmissionPolicySpecArgs(
        failure_policy="Fail",
        match_constraints=MatchResourcesArgs(resource_rules=[everything]),
        match_conditions=[MatchConditionArgs(name="provider", expression=f"request.userInfo.username == '{user}'")],
        variables=[VariableArgs(name=name, expression=text) for name, text in VARIABLES.items()],
        validations=[ValidationArgs(message=message, expression=text) for message, text in validations(settings)],
    )


def policy_binding() -> ValidatingAdmissionPolicyBindingSpecArgs:
    """The binding that makes the API server refuse."""
    return ValidatingAdmissionPolicyBindingSpecArgs(policy_name=NAME, validation_actions=["Deny"])
