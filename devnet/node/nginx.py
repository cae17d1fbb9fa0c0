"""The image of Ingress-NGINX: its own controller, template and Lua programs, run by Debian's nginx (real-node.md)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from devnet.errors import EnclosureFailed
from devnet.node.images import Image, busybox

__all__ = ["NGINX_PACKAGES", "missing_nginx", "nginx_image"]

NGINX_PACKAGES = (
    "nginx libnginx-mod-http-lua libnginx-mod-http-headers-more-filter lua-resty-core lua-resty-lrucache lua-cjson"
)
_NGINX = Path("/usr/sbin/nginx")
_MODULE_FOLDER = Path("/usr/lib/nginx/modules")
_MODULES = ("ndk_http_module", "ngx_http_lua_module", "ngx_http_headers_more_filter_module")
_LUA = Path("/usr/share/lua/5.1")
_CJSON = Path("/usr/lib/x86_64-linux-gnu/lua/5.1/cjson.so")
_START = (
    "mkdir -p /tmp/nginx /etc/ingress-controller/ssl /etc/ingress-controller/auth /etc/ingress-controller/telemetry "
    '/var/log/nginx /var/lib/nginx /usr/share/nginx; cd /etc/nginx; exec /bin/nginx-ingress-controller "$@"'
)
_LOADED = "".join(f"load_module {_MODULE_FOLDER / name}.so;\n" for name in _MODULES)
_SWALLOW = """
    server {
        listen 127.0.0.1:{{ .StreamPort }};
        access_log off;
        return 400;
    }
}
"""
"""The controller sends the TCP services, of which there are none, to this port, and repeats that until it is taken."""
_STREAM = re.compile(r"^}\n+stream \{\n.*?^}\n", re.M | re.S)


def missing_nginx() -> tuple[str, ...]:
    """What keeps Ingress-NGINX from running here, a sentence each; empty when nothing does."""
    needed = (_NGINX, *_modules(), _CJSON, _LUA / "resty/core.lua", _LUA / "resty/lrucache.lua")
    absent = [str(path) for path in needed if not path.exists()]
    return (f"{', '.join(absent)} is missing; run `apt-get install {NGINX_PACKAGES}`",) if absent else ()


def nginx_image(controller: Path, share: Path, scratch: Path) -> Image:
    """The image `lessor.test/ingress-nginx:1`. `share`: the data files of the built controller. `scratch`: a folder for
    the changed template. Raises EnclosureFailed where Debian's packages are missing.
    """
    if problems := missing_nginx():
        raise EnclosureFailed("; ".join(problems))
    template = scratch / "nginx.tmpl"
    template.write_text(_template((share / "template/nginx.tmpl").read_text()))
    own = {
        "bin/nginx-ingress-controller": controller,
        "bin/busybox": busybox(),
        "usr/bin/nginx": _NGINX,
        "etc/nginx/template/nginx.tmpl": template,
        "etc/nginx/nginx.conf": share / "nginx.conf",
        "etc/nginx/mime.types": Path("/etc/nginx/mime.types"),
    }
    lua = {f"etc/nginx/lua/{path.relative_to(share / 'lua')}": path for path in (share / "lua").rglob("*.lua")}
    parts = (*_modules(), _CJSON, *_LUA.rglob("*.lua"), *_libraries((_NGINX, *_modules(), _CJSON)))
    programs = {**own, **lua, **{str(path).removeprefix("/"): path for path in parts}}
    links = {f"bin/{name}": "busybox" for name in ("sh", "test", "mkdir", "pgrep", "wc")}
    return Image(["lessor.test/ingress-nginx:1"], ["/bin/sh", "-c", _START, "sh"], programs, links)


def _template(text: str) -> str:
    """The controller's template for Debian's nginx, which has no Lua in `stream` and all modules as files."""
    changed, streams = _STREAM.subn(lambda _: _SWALLOW.lstrip("\n"), text)
    pid = "pid {{ .PID }};"
    if streams != 1 or changed.count(pid) != 1:
        raise EnclosureFailed("the template of Ingress-NGINX is not the one that this devnet knows how to change")
    return changed.replace(pid, _LOADED + pid)


def _modules() -> list[Path]:
    return [_MODULE_FOLDER / f"{name}.so" for name in _MODULES]


def _libraries(programs: Iterable[Path]) -> Iterable[Path]:
    """The shared libraries of these programs, and their loader."""
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        yield from (Path(word) for word in listed.split() if word.startswith("/"))
