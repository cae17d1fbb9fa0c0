"""Open files: the limit of the process is raised at the start, and part of it is kept from the gateway's connections.

Without the reserve, connections of strangers could take every descriptor, and no file could be opened and no process
started for a lease.
"""

from __future__ import annotations

import resource

import structlog

from provider.settings import Settings

__all__ = ["raise_file_limit", "within_file_limit"]

_WANTED = 65_536
"""Enough for every setting; a limit of a million makes some programs that we start close a million descriptors."""
_RESERVE = 512
"""Descriptors of the provider itself: workers and their pipes, the API server, nodes, the database, logs."""
_OF_GRPC = 3
"""Descriptors of one gRPC connection: the peer's, and both ends of the one to the server behind the relay."""
_LEAST = 8
_log = structlog.get_logger("lessor")


def raise_file_limit() -> int:
    """Raise the soft limit of open files as far as the hard limit and good sense allow, and return the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _WANTED if hard == unlimited else min(hard, _WANTED)
    if soft == unlimited or soft >= wanted:
        return _WANTED if soft == unlimited else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("provider.file_limit_not_raised", limit=soft, wanted=wanted, problem=str(error))
        return soft
    return wanted


def within_file_limit(settings: Settings, limit: int) -> Settings:
    """The settings, with fewer connections of the gateways where `limit` descriptors do not hold all of them and the
    reserve.
    """
    rest, grpc = settings.gateway_connections, settings.gateway_grpc_connections
    wanted, free = rest + _OF_GRPC * grpc, max(0, limit - _RESERVE)
    if wanted <= free:
        return settings
    fewer = {
        "gateway_connections": max(_LEAST, rest * free // wanted),
        "gateway_grpc_connections": max(_LEAST, grpc * free // wanted),
    }
    _log.warning(
        "gateway.fewer_connections",
        open_files=limit,
        reserved=_RESERVE,
        **fewer,
        remedy="raise the hard limit of open files (ulimit -Hn, LimitNOFILE=) or lower LESSOR_GATEWAY_CONNECTIONS",
    )
    return settings.model_copy(update=fewer)
