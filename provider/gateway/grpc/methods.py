"""The table of gRPC methods, and gRPC's own services: health and reflection (gateway.md §5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeAlias

import grpc
from akash.provider.lease.v1 import service_pb2 as lease_pb
from akash.provider.v1 import service_pb2 as provider_pb
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio as reflection  # type: ignore[attr-defined]

from provider.gateway.errors import RequestError
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.grpc.callers import Stream, Unary, answering, streaming
from provider.gateway.grpc.lease_rpc import LeaseRpc
from provider.gateway.grpc.places import StreamPlaces
from provider.gateway.grpc.provider_rpc import ProviderRpc
from provider.gateway.grpc.relay import relayed_peer

__all__ = ["Methods", "common_methods", "lease_methods", "provider_methods"]

Methods: TypeAlias = Mapping[str, Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]]
"""Handlers by service and method; every other method is UNIMPLEMENTED."""

_PROVIDER, _LEASE = "akash.provider.v1.ProviderRPC", "akash.provider.lease.v1.LeaseRPC"
_HEALTH, _REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"


def provider_methods(screening: BidScreening, provider: ProviderRpc | None = None) -> Methods:
    """`ProviderRPC`. `ValidateGroupSpec` is the name of the screening in older public documents."""
    screen = _unary(screening.answer, provider_pb.BidScreeningRequest)
    found = {"BidScreening": screen, "ValidateGroupSpec": screen}
    if provider is not None:
        found["GetStatus"] = _unary(provider.get_status, Empty)
        found["StreamStatus"] = _stream(provider.stream_status, Empty)
    return {_PROVIDER: found}


def lease_methods(lease: LeaseRpc) -> Methods:
    """`LeaseRPC`."""
    return {
        _LEASE: {
            "SendManifest": _unary(lease.send_manifest, lease_pb.SendManifestRequest),
            "ServiceStatus": _unary(lease.service_status, lease_pb.ServiceStatusRequest),
            "StreamServiceStatus": _stream(lease.stream_service_status, lease_pb.ServiceStatusRequest),
            "ServiceLogs": _unary(lease.service_logs, lease_pb.ServiceLogsRequest),
            "StreamServiceLogs": _stream(lease.stream_service_logs, lease_pb.ServiceLogsRequest),
            "AttestationQuote": _unary(lease.attestation_quote, lease_pb.AttestationQuoteRequest),
        }
    }


def common_methods(services: Methods, places: StreamPlaces) -> Methods:
    """Health of `services`, and reflection over them. Reflection is served as v1 only, as recorded; its messages are
    those of v1alpha, which Python's library knows.
    """
    names = frozenset({"", *services, _HEALTH, _REFLECTION})
    reflect = reflection.ReflectionServicer(sorted(names - {""})).ServerReflectionInfo  # type: ignore[attr-defined]

    async def check(request: Any, _: Any) -> Any:
        if request.service not in names:
            raise RequestError(404, "unknown service")
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)

    async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
        known = request.service in names
        states = health_pb2.HealthCheckResponse
        with places.take(relayed_peer(context.peer())):
            yield states(status=states.SERVING if known else states.SERVICE_UNKNOWN)
            await asyncio.Event().wait()

    async def info(requests: Any, context: Any) -> AsyncIterator[Any]:
        with places.take(relayed_peer(context.peer())):
            async for answer in reflect(requests, context):
                yield answer

    return {
        _HEALTH: {
            "Check": _unary(check, health_pb2.HealthCheckRequest),
            "Watch": _stream(watch, health_pb2.HealthCheckRequest),
        },
        _REFLECTION: {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                streaming(info),
                request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
                response_serializer=_serialized,
            )
        },
    }


def _unary(method: Unary, request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        answering(method), request_deserializer=request.FromString, response_serializer=_serialized
    )


def _stream(method: Stream, request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_stream_rpc_method_handler(
        streaming(method), request_deserializer=request.FromString, response_serializer=_serialized
    )


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
