"""The client of `benchmarks.serving`, a process of its own: it sends requests over connections that are open already.

It reads one JSON document from its input: the provider's certificate as PEM, its URL, a token, and the groups of
requests. Each line of input after that starts one group, and the times to the whole answers are printed as one line of
JSON, in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

import aiohttp

__all__ = ["Client", "Group", "Target", "client"]


@dataclass(frozen=True, slots=True)
class Target:
    """`certificate`: PEM, the only one that is trusted. `connections`: how many are opened first."""

    certificate: str
    url: str
    token: str
    connections: int


@dataclass(frozen=True, slots=True)
class Group:
    """Requests of one method; with `together` all are sent at once, else one after the other."""

    method: str
    paths: Sequence[str]
    body: str = ""
    together: bool = False


class Client:
    """The process as the benchmark sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def times_ms(self) -> list[float]:
        """Have the next group sent. Raises `RuntimeError` when a request fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        return await self.line()

    async def line(self) -> list[float]:
        assert self._process.stdout is not None
        text = await self._process.stdout.readline()
        if not text:
            raise RuntimeError("the client ended; its message is above")
        found: list[float] = json.loads(text)
        return found


@asynccontextmanager
async def client(target: Target, groups: Sequence[Group]) -> AsyncIterator[Client]:
    """A client whose connections are open."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.serving_client", stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    document = {"target": asdict(target), "groups": [asdict(group) for group in groups]}
    process.stdin.write(json.dumps(document).encode() + b"\n")
    try:
        made = Client(process)
        await made.line()
        yield made
    finally:
        process.stdin.close()
        await process.wait()


class _Requests:
    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._target = target
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.load_verify_locations(cadata=target.certificate)
        self._tls.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN

    async def timed_ms(self, method: str, path: str, body: str) -> float:
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {self._target.token}"}
        async with self._session.request(
            method, self._target.url + path, data=body.encode() or None, headers=headers, ssl=self._tls
        ) as answer:
            text = await answer.text()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return (time.perf_counter() - began) * 1000

    async def group(self, group: Group) -> list[float]:
        if group.together:
            return await asyncio.gather(*(self.timed_ms(group.method, path, group.body) for path in group.paths))
        return [await self.timed_ms(group.method, path, group.body) for path in group.paths]


async def _serve() -> None:
    document = json.loads(sys.stdin.readline())
    target, groups = Target(**document["target"]), [Group(**group) for group in document["groups"]]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        requests = _Requests(session, target)
        await requests.group(Group("GET", ["/status"] * target.connections, together=True))
        print("[]", flush=True)
        for group in groups:
            if not await asyncio.to_thread(sys.stdin.readline):
                return
            print(json.dumps(await requests.group(group)), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
