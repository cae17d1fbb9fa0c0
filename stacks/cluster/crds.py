"""The three custom resources of `akash.network/v2beta2`: the provider's durable record (kubernetes-objects.md §2.11).

The fields are those of the Go provider, so that each provider can read the other's objects; bounds and a status are
added. No bound is tighter than what the Go provider can write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi_kubernetes.apiextensions.v1 import (
    CustomResourceColumnDefinitionArgs,
    CustomResourceDefinitionNamesArgs,
    CustomResourceDefinitionSpecArgs,
    CustomResourceDefinitionVersionArgs,
    CustomResourceSubresourcesArgs,
    CustomResourceValidationArgs,
    JSONSchemaPropsArgs,
)

__all__ = ["CRDS", "GROUP", "VERSION", "definition"]

GROUP = "akash.network"
VERSION = "v2beta2"

Schema = JSONSchemaPropsArgs


def _object(properties: Mapping[str, Schema], *, nullable: bool = False, required: Sequence[str] = ()) -> Schema:
    return Schema(
        type="object", properties=dict(properties), nullable=nullable or None, required=list(required) or None
    )


def _list(items: Schema, *, nullable: bool = False) -> Schema:
    return Schema(type="array", items=items, nullable=nullable or None)


def _text(*, pattern: str | None = None, max_length: int | None = None, nullable: bool = False) -> Schema:
    return Schema(type="string", pattern=pattern, max_length=max_length, nullable=nullable or None)


def _number(minimum: float, maximum: float, *, kind: str = "integer") -> Schema:
    return Schema(type=kind, minimum=minimum, maximum=maximum)


TEXT = _text()
TEXTS = _list(TEXT)
ACCOUNT = _text(pattern="^akash1[a-z0-9]+$", max_length=128)
UINT64_TEXT = _text(pattern="^[0-9]{1,20}$")
UINT32 = _number(0, 2**32 - 1, kind="number")
SEQUENCE = _number(0, 2**32 - 1)
PORT = _number(0, 65535)
COUNT = _number(0, 2**32 - 1)
HOSTNAME = _text(max_length=253)
ATTRIBUTES = _list(_object({"key": TEXT, "value": TEXT}), nullable=True)
PROTOCOL = _text(pattern="^([tT][cC][pP]|[uU][dD][pP])?$")

LEASE_ID = _object({"owner": ACCOUNT, "dseq": UINT64_TEXT, "gseq": SEQUENCE, "oseq": SEQUENCE, "provider": ACCOUNT})

RESOURCES = _object(
    {
        "id": UINT32,
        "cpu": _object({"units": UINT32, "attributes": ATTRIBUTES}),
        "gpu": _object({"units": UINT32, "attributes": ATTRIBUTES}),
        "memory": _object({"size": UINT64_TEXT, "attributes": ATTRIBUTES}),
        "storage": _list(_object({"name": TEXT, "size": UINT64_TEXT, "attributes": ATTRIBUTES})),
    }
)

HTTP_OPTIONS = _object(
    dict.fromkeys(("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout"), COUNT)
    | {"next_cases": TEXTS}
)

EXPOSE = _object(
    {
        "port": PORT,
        "external_port": PORT,
        "proto": PROTOCOL,
        "service": TEXT,
        "global": Schema(type="boolean"),
        "hosts": _list(HOSTNAME),
        "http_options": HTTP_OPTIONS,
        "ip": TEXT,
        "endpoint_sequence_number": UINT32,
    }
)

PARAMS = _object(
    {
        "storage": _list(_object({"name": TEXT, "mount": TEXT, "readOnly": Schema(type="boolean")})),
        "permissions": _object({"read": TEXTS}, nullable=True),
    },
    nullable=True,
)

SCHEDULER_PARAMS = _object(
    {
        "runtime_class": TEXT,
        "resources": _object(
            {"gpu": _object(dict.fromkeys(("vendor", "model", "interface", "memory_size"), TEXT), nullable=True)},
            nullable=True,
        ),
    },
    nullable=True,
)

SERVICE = _object(
    {
        "name": TEXT,
        "image": TEXT,
        "command": TEXTS,
        "args": TEXTS,
        "env": TEXTS,
        "resources": RESOURCES,
        "count": UINT32,
        "expose": _list(EXPOSE),
        "params": PARAMS,
        "scheduler_params": SCHEDULER_PARAMS,
        "credentials": _object(dict.fromkeys(("host", "email", "username", "password"), TEXT), nullable=True),
    }
)

STATUS = Schema(
    type="object",
    # later versions add fields; a CRD that an operator has not updated yet must not drop them
    x_kubernetes_preserve_unknown_fields=True,
    properties={"state": TEXT, "message": TEXT, "observed_generation": _number(0, 2**53)},
)
ADDRESS_STATUS = Schema(
    type="object",
    x_kubernetes_preserve_unknown_fields=True,
    properties={
        "state": TEXT,
        "message": TEXT,
        "observed_generation": _number(0, 2**53),
        "address": _text(max_length=45),
        "pool": HOSTNAME,
    },
)

MANIFEST = _object({"lease_id": LEASE_ID, "group": _object({"name": TEXT, "services": _list(SERVICE)})})
PROVIDER_HOST = _object(
    {
        "hostname": HOSTNAME,
        "owner": ACCOUNT,
        "provider": ACCOUNT,
        "service_name": TEXT,
        # an integer here, a text in lease_id: as the Go provider writes them
        "dseq": Schema(type="integer", minimum=0, format="int64"),
        "gseq": SEQUENCE,
        "oseq": SEQUENCE,
        "external_port": PORT,
    }
)
PROVIDER_LEASED_IP = _object(
    {
        "lease_id": LEASE_ID,
        "service_name": TEXT,
        "port": PORT,
        "external_port": PORT,
        "protocol": PROTOCOL,
        "sharing_key": TEXT,
    }
)


def _crd(
    kind: str, short: str, spec: Schema, *, status: Schema, columns: Mapping[str, str]
) -> CustomResourceDefinitionSpecArgs:
    """One version, served and stored. v2beta1 is declared as the Go provider declares it, neither served nor stored."""
    singular = kind.lower()
    schema = CustomResourceValidationArgs(open_apiv3_schema=_object({"spec": spec, "status": status}))
    old = CustomResourceValidationArgs(
        open_apiv3_schema=Schema(type="object", x_kubernetes_preserve_unknown_fields=True)
    )
    printed = [CustomResourceColumnDefinitionArgs(name=n, type="string", json_path=p) for n, p in columns.items()]
    return CustomResourceDefinitionSpecArgs(
        group=GROUP,
        scope="Namespaced",
        names=CustomResourceDefinitionNamesArgs(
            kind=kind, list_kind=f"{kind}List", plural=f"{singular}s", singular=singular, short_names=[short]
        ),
        versions=[
            CustomResourceDefinitionVersionArgs(name="v2beta1", served=False, storage=False, schema=old),
            CustomResourceDefinitionVersionArgs(
                name=VERSION,
                served=True,
                storage=True,
                schema=schema,
                subresources=CustomResourceSubresourcesArgs(status={}),
                additional_printer_columns=printed,
            ),
        ],
    )


CRDS = {
    "manifests": _crd(
        "Manifest",
        "mani",
        MANIFEST,
        status=STATUS,
        columns={"Owner": ".spec.lease_id.owner", "Dseq": ".spec.lease_id.dseq"},
    ),
    "providerhosts": _crd(
        "ProviderHost",
        "ph",
        PROVIDER_HOST,
        status=STATUS,
        columns={"Service": ".spec.service_name", "State": ".status.state"},
    ),
    "providerleasedips": _crd(
        "ProviderLeasedIP",
        "plip",
        PROVIDER_LEASED_IP,
        status=ADDRESS_STATUS,
        columns={"Service": ".spec.service_name", "Address": ".status.address", "State": ".status.state"},
    ),
}
"""By plural; the object's name is `<plural>.akash.network`."""


def definition(plural: str) -> tuple[str, CustomResourceDefinitionSpecArgs]:
    """(object name, spec) of one of `CRDS`."""
    return f"{plural}.{GROUP}", CRDS[plural]
