"""Who calls: the credentials of a gRPC call and what they allow, and refusals as gRPC statuses (gateway.md §2, §5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
import structlog

from lease.ids import LeaseId
from provider.chain.codec import lease_id_from_pb
from provider.errors import ChainError, ClusterError
from provider.gateway.auth.access import require_access, unauthorized
from provider.gateway.auth.claims import Claims, Scope
from provider.gateway.auth.tokens import Tokens, read_credentials
from provider.gateway.errors import AuthError, GatewayError
from provider.gateway.grpc.relay import relayed_account, relayed_peer

__all__ = ["Callers", "Stream", "Unary", "answering", "streaming"]

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
_MAX_TEXT = 1000
_log = structlog.get_logger("gateway")

Unary: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
Stream: TypeAlias = Callable[[Any, Any], AsyncIterator[Any]]


class Callers:
    """Checks the callers of the methods for tenants. `provider`: the provider's address."""

    def __init__(self, tokens: Tokens, *, provider: str) -> None:
        self._tokens = tokens
        self._provider = provider

    async def lease(self, context: Any, named: Any, scope: Scope) -> tuple[LeaseId, Claims]:
        """The lease that `named`, a LeaseID message, names, and the caller's claims. Raises `AuthError` unless the
        caller owns it and may use `scope`.
        """
        claims = await self._claims(context)
        lease = lease_id_from_pb(named)
        if not claims.iss or lease.owner != claims.iss or lease.provider != self._provider:
            raise unauthorized()
        require_access(claims, self._provider, lease, scope)
        return lease, claims

    async def _claims(self, context: Any) -> Claims:
        metadata = context.invocation_metadata() or ()
        headers = [str(value) for key, value in metadata if key == "authorization"]
        if len(headers) > 1:
            raise AuthError(400, "invalid authorization header")
        peer, account = relayed_peer(context.peer()), relayed_account(context.peer())
        return await read_credentials(next(iter(headers), None), self._tokens, peer=peer, account=account)


def answering(method: Unary) -> Unary:
    """`method` with its refusals as gRPC statuses."""

    async def answer(request: Any, context: Any) -> Any:
        try:
            return await method(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, error)

    return answer


def streaming(method: Stream) -> Stream:
    """`method`, which yields messages, with its refusals as gRPC statuses."""

    async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for message in method(request, context):
                yield message
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await _abort(context, error)

    return answer


async def _abort(context: Any, error: Exception) -> None:
    code, text = _status(error)
    await context.abort(code, text[:_MAX_TEXT])


def _status(error: Exception) -> tuple[grpc.StatusCode, str]:
    match error:
        case GatewayError():
            return _CODES.get(error.status, grpc.StatusCode.INTERNAL), error.text
        case ClusterError(status=404):
            return grpc.StatusCode.NOT_FOUND, "kube: not found"
        case ClusterError() | ChainError():
            _log.warning("gateway.grpc_failed", problem=str(error))
            return grpc.StatusCode.UNAVAILABLE, "this provider cannot answer now; try again"
        case _:
            _log.error("gateway.grpc_failed", error=type(error).__name__)
            return grpc.StatusCode.INTERNAL, "internal error"
