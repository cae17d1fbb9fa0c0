"""What went wrong is told by one word, whatever a tenant managed to get quoted in the error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.common.causes import cause_of
from stacks.common.results import FailureCause

ECHO = "error: update failed: resource monitor has terminated, shutting down"
TEXTS = {
    'Deployment web: deployments.apps "web" is forbidden: exceeded quota: q, requested: 1': FailureCause.QUOTA,
    'admission webhook "a.example" denied the request: no': FailureCause.DENIED,
    "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no": (
        FailureCause.DENIED
    ),
    'Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1': FailureCause.INVALID,
    'Deployment.apps "web" is invalid: spec.selector: field is immutable': FailureCause.IMMUTABLE,
    "updates to statefulset spec for fields other than 'replicas' are forbidden": FailureCause.IMMUTABLE,
    'deployments.apps is forbidden: User "p" cannot create resource': FailureCause.FORBIDDEN,
    "namespace n is still terminating; it can be used again when it is gone": FailureCause.TERMINATING,
    'server-side apply failed: namespaces "n" not found': FailureCause.TERMINATING,
    "unable to create new content in namespace n because it is being terminated": FailureCause.TERMINATING,
    "the stack is currently locked by 1 lock(s)": FailureCause.LOCKED,
    "write /x: no space left on device": FailureCause.NO_ROOM,
    "the object has been modified; please apply your changes to the latest version": FailureCause.CONFLICT,
    'Apply failed with 1 conflict: conflict with "kubectl" using apps/v1': FailureCause.MANAGED_ELSEWHERE,
    "namespace n is not a lease's: it lacks the label": FailureCause.EXISTS,
    "dial tcp 127.0.0.1:1: connect: connection refused": FailureCause.UNREACHABLE,
    "failed calling webhook: context deadline exceeded": FailureCause.OVERLOADED,
    "etcdserver: leader changed": FailureCause.OVERLOADED,
    "up of n failed: the worker ended (IncompleteReadError); Killed; the next one repairs it": FailureCause.ENGINE,
    "the Pulumi command line was ended by signal 9": FailureCause.ENGINE,
    'Patch "https://127.0.0.1:6443/api/v1/x": EOF': FailureCause.UNREACHABLE,
    "the server has asked for the client to provide credentials: Unauthorized": FailureCause.UNREACHABLE,
    'no matches for kind "IPAddressPool" in version "metallb.io/v1beta1"': FailureCause.UNREACHABLE,
    "etcdserver: request is too large": FailureCause.INVALID,
    "something new": FailureCause.UNKNOWN,
}


@pytest.mark.parametrize(("text", "cause"), TEXTS.items())
@pytest.mark.parametrize("echo", [False, True], ids=["alone", "with the program's echo"])
def test_an_error_has_its_cause_with_and_without_the_echo_of_the_program(text, cause, echo):
    assert cause_of(f"{text}\n{ECHO}" if echo else text) is cause


def test_the_echo_alone_is_our_own_trouble():
    assert cause_of(ECHO) is FailureCause.ENGINE


def test_no_error_has_no_cause():
    assert cause_of("") is None


@pytest.mark.parametrize(
    "text", [text for text, cause in TEXTS.items() if not cause.provider_fault and cause is not FailureCause.UNKNOWN]
)
def test_a_tenants_words_do_not_turn_a_refusal_into_our_trouble(text):
    """Otherwise a manifest that can never be applied would be tried for ever."""
    refusals = {cause for cause in TEXTS.values() if not cause.provider_fault}
    for quoted, cause in TEXTS.items():
        if cause.provider_fault and cause_of(text) in _LOOKED_FOR_FIRST:
            assert cause_of(f"{text}: {quoted}") in refusals, quoted


_LOOKED_FOR_FIRST = {
    FailureCause.QUOTA,
    FailureCause.DENIED,
    FailureCause.INVALID,
    FailureCause.IMMUTABLE,
    FailureCause.POLICY,
}


@given(st.text(max_size=400))
def test_any_text_is_judged(text):
    assert isinstance(cause_of(text), FailureCause | None)
