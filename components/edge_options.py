"""A tenant's HTTP options as annotations of the shared edge.

Names and spellings: kubernetes-objects.md §2.9–2.10; maxima and cases: sdl-and-manifest.md §1.5.
A value that is not in the lists below is refused: annotations become lines of the edge's configuration, for everybody.
"""

from __future__ import annotations

from components.checks import within
from components.errors import BuildError
from lease.spec import HostnameSpec

__all__ = ["NEXT_CASES", "ingress_annotations", "route_annotations"]

NEXT_CASES = ("error", "timeout", "500", "502", "503", "504", "403", "404", "429", "off")

_MAX_BODY_BYTES = 104_857_600
_MAX_TIMEOUT_MS = 60_000
_UINT32 = 2**32 - 1


def ingress_annotations(hostname: HostnameSpec) -> dict[str, str]:
    """For Ingress-NGINX: seconds rounded up, bytes, everything always present."""
    options = _checked(hostname)
    values = {
        "proxy-read-timeout": str(_seconds(options.read_timeout)),
        "proxy-send-timeout": str(_seconds(options.send_timeout)),
        "proxy-next-upstream-tries": str(options.next_tries),
        "proxy-body-size": str(options.max_body_size),
        "proxy-next-upstream-timeout": str(_seconds(options.next_timeout)),
        "proxy-next-upstream": _cases(options),
    }
    return {f"nginx.ingress.kubernetes.io/{key}": value for key, value in values.items()}


def route_annotations(hostname: HostnameSpec, proxy_buffer_size: str) -> dict[str, str]:
    """For NGINX behind the Gateway API: a waiting time with its unit, and nothing where there is nothing to say."""
    options = _checked(hostname)
    values = {
        "client-max-body-size": str(options.max_body_size),
        "proxy-read-timeout": str(_seconds(options.read_timeout)),
        "proxy-send-timeout": str(_seconds(options.send_timeout)),
        "proxy-next-upstream-timeout": f"{_seconds(options.next_timeout)}s" if options.next_timeout else "",
        "proxy-next-upstream-tries": str(options.next_tries),
        "proxy-next-upstream": _cases(options),
        "proxy-buffer-size": proxy_buffer_size,
    }
    return {f"nginx.org/{key}": value for key, value in values.items() if value}


def _checked(hostname: HostnameSpec) -> HostnameSpec:
    """The options with §2.9's fallback (a body size of 0 means: none of them was given) and inside their maxima."""
    place = f"http options of {hostname.hostname}"
    within(f"{place}: max_body_size", hostname.max_body_size, _MAX_BODY_BYTES)
    within(f"{place}: read_timeout", hostname.read_timeout, _MAX_TIMEOUT_MS)
    within(f"{place}: send_timeout", hostname.send_timeout, _MAX_TIMEOUT_MS)
    within(f"{place}: next_tries", hostname.next_tries, _UINT32)
    within(f"{place}: next_timeout", hostname.next_timeout, _UINT32)
    for case in hostname.next_cases:
        if case not in NEXT_CASES:
            raise BuildError(f"{place}: next_cases", case, ", ".join(NEXT_CASES))
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
        }
    )


def _seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1000)


def _cases(hostname: HostnameSpec) -> str:
    """NGINX's words: status codes are spelt `http_502`."""
    return " ".join(f"http_{case}" if case.isdigit() else case for case in hostname.next_cases)
