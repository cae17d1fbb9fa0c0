"""Protobuf without its library: laws, and that it agrees with the real messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime.proto import provider_pb2

from stacks.broker.fields import configuration, encode, failures, parse, stack_of

FIELDS = st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=300)))


@given(FIELDS)
def test_what_is_encoded_is_parsed_again(fields):
    assert list(parse(encode(*fields))) == fields


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_no_message(message):
    try:
        for number, value in parse(message):
            assert number > 0 and len(value) <= len(message)
    except ValueError:
        pass
    stack_of(message)
    failures(message)


def real(**changes):
    message = provider_pb2.ConfigureRequest(acceptSecrets=True, acceptResources=True, urn="urn:pulumi:a::b::c::d")
    variables = {"kubernetes:config:context": "x", "kubernetes:config:namespace": "y"} | changes.pop("variables", {})
    for key, value in variables.items():
        message.variables[key] = value
        message.args.update({key.rpartition(":")[2]: value})
    for key, value in changes.items():
        setattr(message, key, value)
    return message.SerializeToString()


SAME = real()


@pytest.mark.parametrize("changes", [{"urn": "urn:pulumi:other::b::c::d"}, {"id": "7"}, {"name": "n"}, {"type": "t"}])
def test_what_differs_in_each_stack_makes_no_other_configuration(changes):
    assert configuration(real(**changes)) == configuration(SAME)


@pytest.mark.parametrize(
    "changes",
    [
        {"acceptSecrets": False},
        {"sends_old_inputs": True},
        {"variables": {"kubernetes:config:context": "z"}},
        {"variables": {"kubernetes:config:kubeconfig": "apiVersion: v1\nkind: Config\n"}},
        {"variables": {"kubernetes:config:cluster": ""}},
    ],
)
def test_anything_else_makes_another(changes):
    assert configuration(real(**changes)) != configuration(SAME)


def test_the_order_of_maps_does_not_matter():
    entries = [encode((1, key), (2, b"v")) for key in (b"a", b"b", b"c")]
    args = encode(*((1, entry) for entry in entries))
    backwards = encode(*((1, entry) for entry in reversed(entries)))
    one = encode(*((1, entry) for entry in entries), (2, args))
    other = encode((2, backwards), *((1, entry) for entry in reversed(entries)))
    assert configuration(one) == configuration(other)


@pytest.mark.parametrize("path", ["\0", "x" * 5000, "a\nb", "/", "/nowhere", "\udcff"])
def test_a_kubeconfig_of_any_shape_is_no_accident(path):
    assert configuration(encode((1, encode((1, b"kubernetes:config:kubeconfig"), (2, path.encode(errors="replace"))))))


def test_the_stack_is_read_from_real_requests():
    urn = "urn:pulumi:my-stack::lease::kubernetes:core/v1:Secret::x"
    assert stack_of(provider_pb2.CreateRequest(urn=urn).SerializeToString()) == "my-stack"
    for kind in (provider_pb2.ReadRequest, provider_pb2.UpdateRequest, provider_pb2.DeleteRequest):
        assert stack_of(kind(id="urn-like", urn=urn).SerializeToString()) == "my-stack"
    assert stack_of(provider_pb2.CreateRequest().SerializeToString()) == ""


def test_complaints_are_read_from_real_answers():
    response = provider_pb2.CheckResponse(failures=[provider_pb2.CheckFailure(property="p", reason="because")])
    response.inputs.update({"text": "no complaint"})
    assert b"because" in failures(response.SerializeToString())
    assert b"no complaint" not in failures(response.SerializeToString())
