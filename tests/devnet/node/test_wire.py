"""The wire format is protobuf's own, for the messages that the node's parts exchange."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from devnet.node.wire import encode, values


@given(st.lists(st.text(max_size=300)))
def test_protobuf_reads_texts_and_messages_that_were_encoded(names: list[str]) -> None:
    message = encode(*((1, encode((1, name), (3, "import"))) for name in names))
    read = FileDescriptorSet.FromString(message)
    assert [(file.name, list(file.dependency)) for file in read.file] == [(name, ["import"]) for name in names]


@given(st.lists(st.text(max_size=300)), st.lists(st.integers(0, 2**31 - 1)))
def test_values_are_found_among_fields_of_other_kinds(names: list[str], numbers: list[int]) -> None:
    file = FileDescriptorProto(name="file", dependency=names, public_dependency=numbers)
    assert [value.decode() for value in values(file.SerializeToString(), 3)] == names
    assert list(values(Any(type_url="url", value=b"bytes").SerializeToString(), 2)) == [b"bytes"]
