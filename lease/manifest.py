"""The manifest: what a tenant sends to the provider after it has taken the provider's bid (sdl-and-manifest.md §3).

None and an empty tuple differ wherever JSON's null and [] affect the hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from lease.resources import Resources

__all__ = [
    "Credentials",
    "Expose",
    "Group",
    "HttpOptions",
    "Manifest",
    "Params",
    "Permissions",
    "Service",
    "StorageMount",
    "Tee",
]


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Times in milliseconds, sizes in bytes; defaults and maxima in sdl-and-manifest.md §1.5. An empty `next_cases` is
    left out of the JSON.
    """

    max_body_size: int = 1048576
    read_timeout: int = 60000
    send_timeout: int = 60000
    next_tries: int = 3
    next_timeout: int = 0
    next_cases: tuple[str, ...] = ("error", "timeout")
    proxy_buffer_size: int = 0


@dataclass(frozen=True, slots=True)
class Expose:
    """One way to reach a service. `external_port` 0 means the same as `port`."""

    port: int
    external_port: int = 0
    proto: str = "TCP"
    service: str = ""
    global_: bool = False
    hosts: tuple[str, ...] | None = None
    http_options: HttpOptions = HttpOptions()
    ip: str = ""
    endpoint_sequence_number: int = 0

    @property
    def effective_port(self) -> int:
        return self.external_port or self.port

    @property
    def is_ingress(self) -> bool:
        """Whether the shared HTTP edge serves it: TCP, global, external port 80 (kubernetes-objects.md §2.7)."""
        return self.global_ and self.proto.upper() == "TCP" and self.effective_port == 80


@dataclass(frozen=True, slots=True)
class StorageMount:
    name: str
    mount: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Permissions:
    read: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Tee:
    type: str
    attestation: bool = True


@dataclass(frozen=True, slots=True)
class Credentials:
    """Registry credentials; never logged, a secret input of the stack."""

    host: str
    email: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(host={self.host!r}, username={self.username!r}, password=***)"


@dataclass(frozen=True, slots=True)
class Params:
    storage: tuple[StorageMount, ...] | None = None
    credentials: Credentials | None = None
    permissions: Permissions | None = None
    tee: Tee | None = None


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    image: str
    resources: Resources
    count: int
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[str, ...] | None = None
    expose: tuple[Expose, ...] | None = ()
    params: Params | None = None
    credentials: Credentials | None = None


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    services: tuple[Service, ...] | None


Manifest = tuple[Group, ...]
