"""The `services` section: what runs, how it is reached, what it mounts (sdl-and-manifest.md §1.4-1.7)."""

from __future__ import annotations

import re
from typing import NamedTuple

from yaml.nodes import Node

from lease.manifest import HttpOptions
from lease.sdl.reader import Reader, is_null

__all__ = ["RawCredentials", "RawExpose", "RawMount", "RawParams", "RawService", "To", "read_service"]

DEFAULT_HTTP_OPTIONS = HttpOptions()

_HOST = re.compile(r"[^\x00-\x20\x7f\\^`{|}%]*")
_PATH = re.compile(r"([^\x00-\x1f\x7f%]|%[0-9a-fA-F]{2})*")
_SPLIT = re.compile(r"[/?]")
_PLAIN_HOST = re.compile(r"[a-zA-Z0-9.-]*")


class To(NamedTuple):
    """One way in which an expose is offered; the default is to every service of the placement."""

    service: str = ""
    global_: bool = False
    ip: str = ""


class RawExpose(NamedTuple):
    """An expose as written; `as_` 0 means the same as `port`, `proto` is unchecked text."""

    node: Node
    port: int
    as_: int
    proto: str
    accept: tuple[str, ...] | None
    to: tuple[To, ...]
    http_options: HttpOptions
    members: dict[str, Node]


class RawMount(NamedTuple):
    node: Node
    mount: str
    read_only: bool


class RawParams(NamedTuple):
    """`permissions` is False when the key is absent or null, else its `read` list (None when that is absent)."""

    node: Node
    storage: dict[str, RawMount]
    permissions: tuple[str, ...] | bool | None
    tee: str


class RawCredentials(NamedTuple):
    node: Node
    host: str
    email: str
    username: str
    password: str


class RawService(NamedTuple):
    """`members` are the nodes by key, to point at."""

    node: Node
    members: dict[str, Node]
    image: str
    command: tuple[str, ...] | None
    args: tuple[str, ...] | None
    env: tuple[str, ...] | None
    expose: tuple[RawExpose, ...]
    params: RawParams | None
    credentials: RawCredentials | None


_HTTP_NUMBERS = {
    "max_body_size": DEFAULT_HTTP_OPTIONS.max_body_size,
    "read_timeout": DEFAULT_HTTP_OPTIONS.read_timeout,
    "send_timeout": DEFAULT_HTTP_OPTIONS.send_timeout,
    "next_tries": DEFAULT_HTTP_OPTIONS.next_tries,
    "next_timeout": DEFAULT_HTTP_OPTIONS.next_timeout,
    "proxy_buffer_size": 0,
}


def _http_options(reader: Reader, node: Node) -> HttpOptions:
    """The HTTP options; 0 and absent mean the default. Maxima are checked later, for deployed services only."""
    found = reader.entries(node)
    numbers = {name: reader.uint32(found.get(name)) or default for name, default in _HTTP_NUMBERS.items()}
    cases = reader.texts(found.get("next_cases"))
    return HttpOptions(**numbers, next_cases=cases or DEFAULT_HTTP_OPTIONS.next_cases)


def _to(reader: Reader, node: Node) -> To:
    """One `to`. Its HTTP options have no effect, but their types are checked."""
    found = reader.entries(node)
    if "http_options" in found:
        _http_options(reader, found["http_options"])
    return To(
        reader.text(found.get("service")),
        reader.flag(found["global"]) if "global" in found else False,
        reader.text(found.get("ip")),
    )


def _accept(reader: Reader, node: Node) -> tuple[str, ...] | None:
    before = reader.noted
    hosts = reader.texts(node)
    if hosts is None or reader.noted != before or all(_PLAIN_HOST.fullmatch(host) for host in hosts):
        return hosts
    for item in reader.items(node) or ():
        host = reader.text(item)
        if not _PLAIN_HOST.fullmatch(host) and not _is_request_host(host):
            reader.problem(item, f'parse "http://{host[:100]}": invalid character in host name')
    return hosts


def _is_request_host(item: str) -> bool:
    """Whether Go would parse `http://<item>` as a request URI; the manifest has stricter rules for hosts."""
    host = _SPLIT.split(item, maxsplit=1)[0]
    rest = item[len(host) :]
    port = host.rpartition("@")[2].rpartition(":")[2] if ":" in host and not host.endswith("]") else ""
    return bool(_HOST.fullmatch(host) and _PATH.fullmatch(rest)) and (not port or port.isdigit())


def _expose(reader: Reader, node: Node) -> RawExpose:
    found = reader.entries(node)
    to = found.get("to")
    http_options, accept = found.get("http_options"), found.get("accept")
    return RawExpose(
        node,
        reader.uint32(found.get("port")),
        reader.uint32(found["as"]) if "as" in found else 0,
        reader.text(found["proto"]) if "proto" in found else "",
        None if accept is None else _accept(reader, accept),
        () if to is None else tuple([_to(reader, item) for item in reader.given(to)]),
        DEFAULT_HTTP_OPTIONS if http_options is None else _http_options(reader, http_options),
        found,
    )


def _mount(reader: Reader, node: Node) -> RawMount:
    found = reader.entries(node)
    return RawMount(node, reader.text(found.get("mount")), reader.flag(found.get("readOnly")))


def _params(reader: Reader, node: Node | None) -> RawParams | None:
    if node is None or is_null(node):
        return None
    found = reader.entries(node)
    permissions = found.get("permissions")
    read = False if is_null(permissions) else reader.texts(reader.entries(permissions).get("read"))
    return RawParams(node, reader.mapping_of(found.get("storage"), _mount), read, reader.text(found.get("tee")))


def _credentials(reader: Reader, node: Node | None) -> RawCredentials | None:
    if node is None or is_null(node):
        return None
    found = reader.entries(node)
    return RawCredentials(node, *(reader.text(found.get(name)) for name in ("host", "email", "username", "password")))


def read_service(reader: Reader, node: Node) -> RawService:
    """One service. `dependencies` and unknown keys have no effect."""
    found = reader.entries(node)
    expose = found.get("expose")
    return RawService(
        node,
        found,
        reader.text(found.get("image")),
        reader.texts(found.get("command")),
        reader.texts(found.get("args")),
        reader.texts(found.get("env")),
        () if expose is None else tuple([_expose(reader, item) for item in reader.given(expose)]),
        _params(reader, found.get("params")),
        _credentials(reader, found.get("credentials")),
    )
