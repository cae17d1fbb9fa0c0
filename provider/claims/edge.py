"""One request to the provider's own HTTP edge, for a hostname that the edge should serve.

The request goes to the address in the settings, never to what a hostname resolves to: a tenant's DNS entry could name
any machine that the provider can reach.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["AskEdge", "EdgeAnswer", "asked_name", "asking", "route_accepted", "serves"]

_LIMIT_S = 3.0
_HEAD_BYTES = 16 * 1024
_NOT_SERVED = (404, 502, 503, 504)
"""Answers of an edge that has no route for the hostname, or nothing behind the route."""


@dataclass(frozen=True, slots=True)
class EdgeAnswer:
    """`status`: of the HTTP answer, 0 for none. `problem`: why there is none. `certificate`: why the edge's certificate
    is not valid for the hostname; empty when it is, or when TLS was not used.
    """

    status: int
    problem: str = ""
    certificate: str = ""


AskEdge: TypeAlias = Callable[[str], Awaitable[EdgeAnswer]]
"""Takes a hostname."""


def asked_name(hostname: str) -> str:
    """The name with which the edge, or DNS, is asked for a hostname: of a wildcard a name below it."""
    return f"lessor-check{hostname[1:]}" if hostname.startswith("*.") else hostname


def serves(answer: EdgeAnswer) -> bool:
    """Whether the edge has a route for the hostname with something behind it."""
    return answer.status > 0 and answer.status not in _NOT_SERVED


def route_accepted(route: Mapping[str, Any]) -> bool:
    """Whether a gateway has accepted this generation of an HTTPRoute and found what is behind it."""
    generation = int((route.get("metadata") or {}).get("generation") or 0)
    parents = (route.get("status") or {}).get("parents") or ()
    return any(_holds(parent.get("conditions") or (), generation) for parent in parents)


def _holds(conditions: Iterable[Mapping[str, Any]], generation: int) -> bool:
    current = [item for item in conditions if int(item.get("observedGeneration") or generation) >= generation]
    states = {item.get("type"): item.get("status") for item in current}
    return states.get("Accepted") == "True" and states.get("ResolvedRefs", "True") == "True"


def asking(endpoint: str, *, tls: bool = False) -> AskEdge | None:
    """Asks the edge at this `host:port`, None without one, by HTTP or with `tls` by HTTPS with the hostname as SNI.
    Follows no redirect, reads at most 16 KiB, and ends after three seconds. Raises nothing.
    """

    if not endpoint:
        return None
    host, _, port = endpoint.rpartition(":")

    async def ask(hostname: str) -> EdgeAnswer:
        try:
            async with asyncio.timeout(_LIMIT_S):
                return await _ask(host.strip("[]"), int(port), hostname, tls=tls)
        except ssl.SSLError as error:
            return EdgeAnswer(0, f"TLS failed: {error.reason or type(error).__name__}")
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            return EdgeAnswer(0, f"no answer of the edge: {type(error).__name__}")

    return ask


async def _ask(host: str, port: int, hostname: str, *, tls: bool) -> EdgeAnswer:
    problem = ""
    if tls:
        try:
            return EdgeAnswer(await _status(host, port, hostname, context=ssl.create_default_context()))
        except ssl.SSLCertVerificationError as error:
            problem = str(error.verify_message)
    context = _unverified() if tls else None
    return EdgeAnswer(await _status(host, port, hostname, context=context), certificate=problem)


def _unverified() -> ssl.SSLContext:
    """For the status behind a certificate that is not valid, which is reported beside it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _status(host: str, port: int, hostname: str, *, context: ssl.SSLContext | None) -> int:
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=hostname if context else None, limit=_HEAD_BYTES
    )
    try:
        writer.write(f"GET / HTTP/1.1\r\nHost: {hostname}\r\nUser-Agent: lessor\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        line = await reader.readline()
        version, code, *_ = line.decode("latin-1").split(" ", 2)
        if not version.startswith("HTTP/1.") or not code.strip().isdigit():
            raise ValueError(line[:80])
        return int(code)
    finally:
        writer.close()
