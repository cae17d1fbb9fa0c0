"""Redis clients from a URL: one server (`redis`, `rediss`, `unix`), or the master that Sentinels name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from redis.asyncio import Redis, Sentinel
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

__all__ = ["redis_client", "shown_url", "url_problem"]

_SENTINEL = ("redis+sentinel", "rediss+sentinel")
_SCHEMES = ("redis", "rediss", "unix", *_SENTINEL)
_SENTINEL_PORT = 26379
_UNREADABLE = "it cannot be read: a port is a number; in a password / ? # and @ are written as %2F %3F %23 and %40"


class _UrlError(ValueError):
    """The text shows nothing of the URL."""


@asynccontextmanager
async def redis_client(url: str, *, timeout_s: float) -> AsyncIterator[Redis]:
    """A client that connects when it is used and never tries twice. Every answer has `timeout_s` to arrive. Raises
    ValueError for a URL of another form.

    `redis+sentinel://user:password@host1:26379,host2/service/0` names Sentinels and the service; each new connection
    asks them for the master. `?sentinel_username=…&sentinel_password=…`: for the Sentinels, if they ask too.
    """
    client, sentinels = _client(url, timeout_s)
    try:
        yield client
    finally:
        for each in (client, *sentinels):
            await each.aclose(close_connection_pool=True)


def _client(url: str, timeout_s: float) -> tuple[Redis, Sequence[Redis]]:
    """The client, and those of the Sentinels."""
    limits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "protocol": 2}
    limits["retry"] = Retry(NoBackoff(), 0)
    parts = urlsplit(url)
    if parts.scheme not in _SENTINEL:
        return Redis.from_url(url, **limits), ()
    service, _, number = parts.path.strip("/").partition("/")
    if not service:
        raise _UrlError("the name of the service is missing: redis+sentinel://host:26379/SERVICE")
    secure: dict[str, Any] = {"ssl": True} if parts.scheme == "rediss+sentinel" else {}
    asked = limits | secure | _sentinel_account(parts)
    sentinel = Sentinel(_hosts(parts), sentinel_kwargs=asked, **limits, **secure)  # type: ignore[no-untyped-call]
    account: dict[str, Any] = {"username": _text(parts.username), "password": _text(parts.password)}
    return sentinel.master_for(service, db=int(number or 0), **account), sentinel.sentinels


def url_problem(url: str) -> str:
    """Why the URL names no Redis, without its password; empty for none."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        return f"its scheme is {parts.scheme!r}, not one of {', '.join(_SCHEMES)}"
    query = "" if parts.scheme in _SENTINEL else parts.query
    if parts.scheme != "unix" and "@" in parts.path + query + parts.fragment:
        return _UNREADABLE  # the password ends where a part of the URL seems to begin
    try:
        _client(url, 1.0)
    except _UrlError as error:
        return str(error)
    except (ValueError, RedisError):  # their texts show the part that is no number, which may be the password's
        return _UNREADABLE
    return ""


def shown_url(url: str) -> str:
    """The URL without its account and its query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    """Raises ValueError for a port that is no number."""
    found = []
    for each in parts.netloc.rpartition("@")[2].split(","):
        host, colon, port = each.rpartition(":")
        name, number = (host, int(port)) if colon and not each.endswith("]") else (each, _SENTINEL_PORT)
        found.append((name.strip("[]"), number))
    return found


def _sentinel_account(parts: SplitResult) -> dict[str, str]:
    given = parse_qs(parts.query)
    return {key: given[f"sentinel_{key}"][0] for key in ("username", "password") if f"sentinel_{key}" in given}


def _text(quoted: str | None) -> str | None:
    return None if quoted is None else unquote(quoted)
