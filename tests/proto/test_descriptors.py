"""The messages we compile against the reference: every message, field, enum value and method."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default

from tests.devnet.chain.recording import ROOT

PROTO = ROOT / "proto"
TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_MESSAGE: "message",
    FieldDescriptor.TYPE_ENUM: "enum",
}


@cache
def packages() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "docs" / "protocol" / "chain-messages.json").read_text())["packages"]
    for name in modules():
        importlib.import_module(name)
    return loaded


def modules() -> list[str]:
    return [
        f"{path.relative_to(PROTO).with_suffix('').as_posix()}_pb2".replace("/", ".") for path in PROTO.rglob("*.proto")
    ]


def test_every_message_has_the_reference_s_fields() -> None:
    wanted = {name: message for package in packages().values() for name, message in package["messages"].items()}
    assert len(wanted) == 285
    for name, message in wanted.items():
        found = _fields(Default().FindMessageTypeByName(name))
        assert found == {field["name"]: _wanted(field) for field in message["fields"]}, name


def _wanted(field: dict[str, Any]) -> tuple[Any, ...]:
    type_name = field.get("type_name")
    if field["type"] == "map":
        type_name = (field["map_key"], field["map_value"])
    oneof, non_nullable = field.get("oneof"), bool(field.get("non_nullable"))
    return (
        field["number"],
        field["label"],
        field["type"],
        type_name,
        field["json_name"],
        oneof,
        non_nullable,
        field.get("go_customtype"),
    )


def _fields(message: Descriptor) -> dict[str, tuple[Any, ...]]:
    return {field.name: _found(field) for field in message.fields}


def _found(field: FieldDescriptor) -> tuple[Any, ...]:
    from gogoproto import gogo_pb2

    label, kind, type_name = (
        "repeated" if field.label == FieldDescriptor.LABEL_REPEATED else "optional",
        TYPES[field.type],
        None,
    )
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        label, kind, type_name = "map", "map", (TYPES[key.type], value.message_type.full_name)
    elif field.message_type is not None:
        type_name = field.message_type.full_name
    elif field.enum_type is not None:
        type_name = field.enum_type.full_name
    options = field.GetOptions()
    non_nullable = options.HasExtension(gogo_pb2.nullable) and not options.Extensions[gogo_pb2.nullable]
    custom = options.Extensions[gogo_pb2.customtype] or None
    oneof = field.containing_oneof.name if field.containing_oneof else None
    return field.number, label, kind, type_name, field.json_name, oneof, non_nullable, custom  # type: ignore[attr-defined]


def test_every_enum_has_the_reference_s_values() -> None:
    wanted = {name: enum for package in packages().values() for name, enum in package["enums"].items()}
    assert len(wanted) == 15
    for name, enum in wanted.items():
        found = {value.name: value.number for value in Default().FindEnumTypeByName(name).values}
        assert found == {value["name"]: value["number"] for value in enum["values"]}, name


def test_every_service_has_the_reference_s_methods() -> None:
    wanted = {name: service for package in packages().values() for name, service in package["services"].items()}
    for name, service in wanted.items():
        found = {
            method.name: (
                method.input_type.full_name,
                method.output_type.full_name,
                method.client_streaming,
                method.server_streaming,
            )
            for method in Default().FindServiceByName(name).methods
        }
        assert found == {
            row["name"]: (row["input"], row["output"], row["client_streaming"], row["server_streaming"])
            for row in service["methods"]
        }, name


def test_nothing_is_compiled_that_the_reference_does_not_know() -> None:
    known = {
        name for package in packages().values() for kind in ("messages", "enums", "services") for name in package[kind]
    }
    for name in modules():
        file = importlib.import_module(name).DESCRIPTOR
        if file.package.startswith("akash."):
            defined = [
                *file.message_types_by_name.values(),
                *file.enum_types_by_name.values(),
                *file.services_by_name.values(),
            ]
            assert {item.full_name for item in defined} <= known, name


@pytest.mark.parametrize(
    "first",
    [
        "akash.market.v1beta5.query_pb2_grpc",
        "k8s.io.apimachinery.pkg.api.resource.generated_pb2",
        "akash.bme.v1.msg_pb2",
    ],
)
def test_any_module_may_be_imported_first(first: str) -> None:
    code = f"import {first}\nimport akash.provider.v1.service_pb2_grpc\nfrom cosmos.base.v1beta1 import coin_pb2\n"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd="/")


def test_our_messages_and_cosmpy_s_share_their_classes() -> None:
    from akash.market.v1beta5.msg_pb2 import MsgCreateBid
    from cosmos.base.v1beta1.coin_pb2 import DecCoin

    assert type(MsgCreateBid().price) is DecCoin


def test_no_stray_grpc_module_lies_about() -> None:
    built = Path(importlib.import_module("akash").__file__ or "").parents[1]
    assert not list(built.glob("k8s.io*"))
    assert not list(built.glob("k8s/**/*_grpc.py"))
