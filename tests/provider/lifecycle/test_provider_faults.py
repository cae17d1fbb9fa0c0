"""Which failures are ours and tried again, and how the pauses grow."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from provider.lifecycle.reconcile import retry_pause
from provider.lifecycle.serving.update import provider_fault
from stacks.common.results import FailureCause, Operation, StackResult


def failed(text: str) -> StackResult:
    return StackResult(Operation.UP, "s", ok=False, seconds=1.0, error=text)


@pytest.mark.parametrize(
    "text",
    [
        "Get https://127.0.0.1:6443/version: dial tcp 127.0.0.1:6443: connect: connection refused",
        "read: connection reset by peer",
        "apiserver not ready",
        "configured Kubernetes cluster is unreachable: unable to load schema information from the API server",
        "context deadline exceeded",
        "etcdserver: request timed out",
        "up of abc did not end within 600 s nor when interrupted",
        "up of abc failed: the worker ended (IncompleteReadError); last words; the next one repairs it",
        "namespace x is still terminating; it can be used again when it is gone",
        "the API server of /kubeconfig did not answer: ConnectError('[Errno 111]')",
        "/data is in use by another lessor process; stop it, or give this one a folder of its own",
        "[Errno 28] No space left on device: '/data'",
        "the stack is currently locked by 1 lock(s)",
        "write /data/x.json: no space left on device",
        "Operation cannot be fulfilled on deployments: the object has been modified",
        'secrets "a" is forbidden: unable to create new content in namespace x because it is being terminated',
        'namespace "x" is being terminated',
        'no matches for kind "IPAddressPool" in version "metallb.io/v1beta1"',
        "the server has asked for the client to provide credentials: Unauthorized",
        "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
        "http2: client connection lost",
        'Patch "https://127.0.0.1:6443/api/v1/x": EOF',
        "write tcp 10.0.0.1:1->10.0.0.1:6443: write: broken pipe",
        "dial tcp: lookup api.example: Temporary failure in name resolution",
        'deployments.apps is forbidden: User "p" cannot create resource "deployments"',
        "something nobody has seen before",
        "namespace n is not a lease's: it lacks the label akash.network/namespace=n",
        'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1',
        'Namespace x: admission webhook "validate.kyverno.svc" denied the request: label team is required',
        'IPAddressPool ip-a: admission webhook "ipaddresspools.metallb.io" denied the request: CIDR overlaps',
        'NetworkPolicy a: error: 1 error occurred:\n\t* admission webhook "g.example" denied the request: no egress',
        'Role web: roles "web" is forbidden: exceeded quota: team\nServiceAccount web: exceeded quota: team',
    ],
)
def test_our_trouble(text: str) -> None:
    assert provider_fault(failed(text))


@pytest.mark.parametrize(
    "text",
    [
        'Deployment.apps "web" is invalid: spec.template.spec.containers[0].volumeMounts[2].name: Not found: "web-x"',
        "StatefulSet.apps is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas'",
        'admission webhook "policy.example.com" denied the request: no latest tags',
        "pods is forbidden: exceeded quota: compute",
        "refused by policy: container web is privileged",
        "",
        'Deployment.apps "worker" is invalid: spec.template',
        'Deployment.apps "web" is invalid: env[0].name: Invalid value: "i/o timeout"',
        "refused by policy:\nno-privileged: container killed",
        "failed to create typed patch object: .spec.template.spec.containers[0].bad: field not declared in schema",
        "rpc error: request is too large",
        "Namespace x: denied the request: no\nDeployment web: denied the request: no latest tags",
        'Deployment web: Deployment.apps "web" is invalid: env[0].value: "\nNamespace x: is invalid:"',
        "Deployment web: denied the request:\nNamespace names are not for you",
        "Namespace x: refused by policy: container web is privileged",
    ],
)
def test_a_refusal(text: str) -> None:
    assert not provider_fault(failed(text))


@pytest.mark.parametrize("cause", FailureCause)
def test_the_cause_that_the_engine_names_counts_before_the_text(cause: FailureCause) -> None:
    texts = ("connection refused", "exceeded quota")
    told = [provider_fault(replace(failed(text), cause=cause)) for text in texts]
    assert told == [cause.provider_fault] * 2


def test_pauses_double_up_to_five_minutes_and_spread() -> None:
    random = Random(7)
    for attempts in range(1, 2000, 7):
        whole = min(300.0, 2.0 ** min(attempts - 1, 20))
        assert whole / 2 <= retry_pause(attempts, random=random) <= whole
    assert len({retry_pause(5, random=random) for _ in range(20)}) > 10
