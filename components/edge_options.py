"""A tenant's HTTP options as annotations of the shared HTTP edge.

Names and spellings: kubernetes-objects.md §2.9–2.10; maxima and cases: sdl-and-manifest.md §1.5. A value outside the
lists below is refused, since annotations become lines of the configuration of an edge that all tenants share.
"""

from __future__ import annotations

import re

from components.checks import within
from components.errors import BuildError
from lease.spec import HostnameSpec

__all__ = ["NEXT_CASES", "ingress_annotations", "route_annotations"]

NEXT_CASES = ("error", "timeout", "500", "502", "503", "504", "403", "404", "429", "off")

_MAX_BODY_BYTES = 104_857_600
_MAX_TIMEOUT_MS = 60_000
_MAX_BUFFER_BYTES = 1_048_576
_UINT32 = 2**32 - 1
_SIZE = re.compile(r"[1-9][0-9]{0,8}[kKmM]?")


def ingress_annotations(hostname: HostnameSpec) -> dict[str, str]:
    """The annotations for Ingress-NGINX (and for controllers that read its annotations, such as Traefik): seconds
    rounded up, bytes. All are always present, except the buffer size, which only a tenant who requested one gets
    (sdl-and-manifest.md §1.5).
    """
    options = _checked(hostname)
    values = {
        "proxy-read-timeout": str(_seconds(options.read_timeout)),
        "proxy-send-timeout": str(_seconds(options.send_timeout)),
        "proxy-next-upstream-tries": str(options.next_tries),
        "proxy-body-size": str(options.max_body_size),
        "proxy-next-upstream-timeout": str(_seconds(options.next_timeout)),
        "proxy-next-upstream": _cases(options),
    }
    if options.proxy_buffer_size:
        values["proxy-buffer-size"] = str(options.proxy_buffer_size)
    return {f"nginx.ingress.kubernetes.io/{key}": value for key, value in values.items()}


def route_annotations(hostname: HostnameSpec, proxy_buffer_size: str) -> dict[str, str]:
    """The annotations for NGINX behind the Gateway API: times with their unit; an option without a value has no
    annotation.

    `proxy_buffer_size` is the cluster's, for tenants who request none of their own (§2.10).
    """
    options = _checked(hostname)
    values = {
        "client-max-body-size": str(options.max_body_size),
        "proxy-read-timeout": str(_seconds(options.read_timeout)),
        "proxy-send-timeout": str(_seconds(options.send_timeout)),
        "proxy-next-upstream-timeout": f"{_seconds(options.next_timeout)}s" if options.next_timeout else "",
        "proxy-next-upstream-tries": str(options.next_tries),
        "proxy-next-upstream": _cases(options),
        "proxy-buffer-size": str(options.proxy_buffer_size or _size(proxy_buffer_size)),
    }
    return {f"nginx.org/{key}": value for key, value in values.items() if value}


def _checked(hostname: HostnameSpec) -> HostnameSpec:
    """The options within their maxima, with §2.9's defaults (a body size of 0 means that none of them was given)."""
    place = f"http options of {hostname.hostname}"
    within(f"{place}: max_body_size", hostname.max_body_size, _MAX_BODY_BYTES)
    within(f"{place}: read_timeout", hostname.read_timeout, _MAX_TIMEOUT_MS)
    within(f"{place}: send_timeout", hostname.send_timeout, _MAX_TIMEOUT_MS)
    within(f"{place}: next_tries", hostname.next_tries, _UINT32)
    within(f"{place}: next_timeout", hostname.next_timeout, _UINT32)
    within(f"{place}: proxy_buffer_size", hostname.proxy_buffer_size, _MAX_BUFFER_BYTES)
    for case in hostname.next_cases:
        if case not in NEXT_CASES:
            raise BuildError(f"{place}: next_cases", case, ", ".join(NEXT_CASES))
    if "off" in hostname.next_cases and len(hostname.next_cases) > 1:
        raise BuildError(f"{place}: next_cases", hostname.next_cases, '"off" alone, or other cases without it')
    return hostname if hostname.max_body_size else _defaults(hostname)


def _defaults(hostname: HostnameSpec) -> HostnameSpec:
    return hostname.model_copy(
        update={
            "max_body_size": 1_048_576,
            "read_timeout": 60_000,
            "send_timeout": 60_000,
            "next_timeout": 60_000,
            "next_tries": 3,
            "next_cases": ("error", "timeout"),
            "proxy_buffer_size": 0,
        }
    )


def _seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1000)


def _size(setting: str) -> str:
    """The cluster's buffer size in NGINX's form; "" for none."""
    if setting and not _SIZE.fullmatch(setting):
        raise BuildError("setting proxy-buffer-size", setting, 'digits, optionally with "k" or "m", such as 16k')
    return setting


def _cases(hostname: HostnameSpec) -> str:
    """The cases in NGINX's form: `http_502` for status 502, without repetition, since NGINX warns of it."""
    return " ".join(f"http_{case}" if case.isdigit() else case for case in dict.fromkeys(hostname.next_cases))
