"""Who may read the dashboard: the holder of the token in the provider's home, by a browser that was sent here on
purpose.

The listener is on loopback by default, and every local user and every page in the operator's browser can reach that.
The token keeps users out; Host and Origin keep out pages that resolve their own name to loopback (DNS rebinding).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from provider.errors import SettingsError

__all__ = ["cookie_name", "guard", "link_file", "token_of"]

_TOKEN = "token"  # noqa: S105  (the name of the parameter)
_BYTES = 24
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def link_file(home: Path) -> Path:
    """Where a running provider writes the dashboard's link, token included; only its user can read the file."""
    return home / "dashboard.link"


def token_of(home: Path) -> str:
    """The token in the home, made at the first call. Raises `SettingsError` when it can neither be read nor written."""
    path = home / "dashboard.token"
    try:
        if path.exists() and len(kept := path.read_text().strip()) >= _BYTES:
            return kept
        token = secrets.token_urlsafe(_BYTES)
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(token)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}; remove the file, and the provider makes another token") from error
    return token


def cookie_name(token: str) -> str:
    """The cookie's name, which differs from home to home: browsers share cookies between the ports of one host, and
    one machine may run, or forward the ports of, several providers.
    """
    return f"lessor_dashboard_{hashlib.sha256(token.encode()).hexdigest()[:12]}"


def guard(token: str, *, host: str) -> Middleware:
    """The middleware that refuses every request but those of the token's holder. `host`: the host in the setting of
    the listener, which the browser may use beside the names of loopback.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = _refusal(request, token, host) or await handler(request)
        if not answer.prepared:
            answer.headers.update(_HEADERS)
        return answer

    return check


def _refusal(request: web.Request, token: str, host: str) -> web.StreamResponse | None:
    if not _is_own(request.headers.get("Host", ""), host):
        return web.Response(status=421, text="this name is not the dashboard's\n")
    if request.method not in ("GET", "HEAD"):
        return web.Response(status=405, headers={"Allow": "GET, HEAD"}, text="the dashboard is read-only\n")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        return web.Response(status=403, text="another site asks\n")
    if (given := request.query.get(_TOKEN)) is not None and _same(given, token):
        answer = web.Response(status=303, headers={"Location": request.path})
        answer.set_cookie(cookie_name(token), token, httponly=True, samesite="Strict", path="/", max_age=30 * 86400)
        return answer
    if _same(request.cookies.get(cookie_name(token), ""), token):
        return None
    return web.Response(status=401, text="open the link that `lessor dashboard` prints\n")


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _is_own(header: str, host: str) -> bool:
    """Whether a Host header names loopback or the listener. An address that the listener is bound to is the listener,
    as is any address when it is bound to all.
    """
    name = (urlsplit(f"//{header}").hostname or "") if header.isprintable() and "/" not in header else ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or (bool(host) and name == host)
    return address.is_loopback or name == host or host in ("", "0.0.0.0", "::")  # noqa: S104 (compared)
