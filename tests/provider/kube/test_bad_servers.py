"""`KubeCluster` against servers that are away, slow, broken or hostile: always a `ClusterError` with the address."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from provider.errors import ClusterError, Conflict, SettingsError
from provider.kube.client import KubeCluster
from provider.metrics import REGISTRY
from provider.protocols.cluster import MANIFEST, POD, SECRET, WatchEvent
from tests.world.patience import PATIENCE_S

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def kubeconfig(folder: Path, address: str) -> Path:
    file = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(config))
    return file


@asynccontextmanager
async def server(folder: Path, handler: Handler, **limits: Any) -> AsyncIterator[KubeCluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    cluster = KubeCluster(kubeconfig(folder, f"http://127.0.0.1:{port}/proxy"), **{"timeout_seconds": 0.5, **limits})
    try:
        yield cluster
    finally:
        await cluster.aclose()
        await runner.cleanup()


def status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)


async def test_a_dead_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        cluster = KubeCluster(kubeconfig(tmp_path, address))
        with pytest.raises(ClusterError, match=address) as error:
            await cluster.get(SECRET, "a", namespace="b")
        assert error.value.status == 0
        await cluster.aclose()


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with server(tmp_path, handler) as cluster:
        with pytest.raises(ClusterError):
            await asyncio.wait_for(cluster.list(SECRET), 5)


async def test_a_server_that_drips_for_ever_is_given_up(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(300):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    async with server(tmp_path, handler) as cluster:
        with pytest.raises(ClusterError, match=r"no answer in 0\.5 s"):
            await asyncio.wait_for(cluster.list(SECRET), 5)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (status(403, "secrets is forbidden"), ClusterError, "secrets is forbidden"),
        (status(409, "the object has been modified"), Conflict, "modified"),
        (status(500, "etcdserver: leader changed"), ClusterError, "etcdserver"),
        (web.Response(status=502, text="<html>bad gateway</html>"), ClusterError, "bad gateway"),
        (web.Response(status=503), ClusterError, "no reason given"),
        (web.Response(text="{"), ClusterError, "not JSON"),
        (web.Response(text="[]"), ClusterError, "list instead of an object"),
        (web.Response(body=b"\xff\xfe\x00"), ClusterError, "not JSON"),
        (web.Response(text="[" * 100_000), ClusterError, "not JSON"),
        (web.Response(status=500, text="[" * 100_000), ClusterError, "HTTP 500"),
    ],
    ids=range(10),
)
async def test_bad_answers_are_errors_with_the_text_of_the_server(
    tmp_path: Path, answer: web.Response, error: type[ClusterError], words: str
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=answer.status, body=answer.body, content_type="application/json")

    async with server(tmp_path, handler) as cluster:
        with pytest.raises(error, match=words):
            await cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}})


def scripted(*answers: tuple[int, str]) -> tuple[Handler, list[str]]:
    """A handler that answers with these statuses and Retry-After headers in turn, then with an object; the bodies that
    it read.
    """
    left, read = list(answers), list[str]()

    async def handler(request: web.Request) -> web.StreamResponse:
        read.append(await request.text())
        if not left:
            return web.json_response({"metadata": {"name": "a"}})
        code, retry_after = left.pop(0)
        response = status(code, "too much to do")
        response.headers["Retry-After"] = retry_after
        return response

    return handler, read


OBJECT = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}}


@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_a_request_that_is_to_be_sent_again_soon_is_sent_again_whole(tmp_path: Path, code: int) -> None:
    handler, read = scripted((code, "0"), (code, "0"), (code, "0"))
    async with server(tmp_path, handler, timeout_seconds=60) as cluster:
        assert (await cluster.apply(OBJECT))["metadata"]["name"] == "a"
    assert len(read) == 4 and {json.loads(text)["kind"] for text in read} == {"Secret"}


async def test_a_server_that_asks_for_it_for_ever_is_given_up(tmp_path: Path) -> None:
    handler, read = scripted(*[(429, "0")] * 100)
    async with server(tmp_path, handler, timeout_seconds=60) as cluster:
        with pytest.raises(ClusterError, match="too much to do") as error:
            await cluster.apply(OBJECT)
    assert (error.value.status, error.value.passes, len(read)) == (429, True, 4)


@pytest.mark.parametrize("asked", ["", "-1", "soon", "6", "9" * 5000, "١", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_pause_that_is_none_or_too_long_is_not_waited_for(tmp_path: Path, asked: str) -> None:
    handler, read = scripted((429, asked))
    async with server(tmp_path, handler, timeout_seconds=60) as cluster:
        with pytest.raises(ClusterError) as error:
            await cluster.apply(OBJECT)
    assert (error.value.status, len(read)) == (429, 1)


async def test_a_pause_past_the_limit_of_the_request_is_not_waited_for(tmp_path: Path) -> None:
    handler, read = scripted((429, "5"))
    async with server(tmp_path, handler, timeout_seconds=4.0) as cluster:
        with pytest.raises(ClusterError) as error:
            await cluster.apply(OBJECT)
    assert (error.value.status, len(read)) == (429, 1)


@pytest.mark.parametrize("code", [403, 404, 409, 422])
async def test_what_is_refused_for_good_is_not_sent_again(tmp_path: Path, code: int) -> None:
    handler, read = scripted((code, "0"))
    async with server(tmp_path, handler) as cluster:
        with pytest.raises(ClusterError) as error:
            await cluster.apply(OBJECT)
    assert (error.value.status, len(read)) == (code, 1)


@pytest.mark.parametrize(
    ("code", "text", "passes"),
    [
        *((code, "", True) for code in (0, 408, 409, 429, 502, 503, 504)),
        *((code, "", False) for code in (400, 401, 403, 404, 410, 413, 422, 500)),
        (500, "etcdserver: request timed out", True),
        (422, "etcdserver: request timed out", False),
    ],
)
def test_only_what_may_succeed_unchanged_passes(code: int, text: str, passes: bool) -> None:
    assert ClusterError("https://192.0.2.1", text, status=code).passes is passes


async def test_a_pod_that_answers_without_end_is_given_up(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" " * 65536)
        return response

    async with server(tmp_path, handler, timeout_seconds=PATIENCE_S) as cluster:
        with pytest.raises(ClusterError, match="answered more than"):
            await cluster.through(POD, "pod", "node", namespace="n", port=8081)


async def test_requests_keep_the_path_of_a_proxy_and_escape_names(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return status(404, "not found")

    async with server(tmp_path, handler) as cluster:
        assert await cluster.get(MANIFEST, "../x", namespace="a/b") is None
        assert await cluster.delete(MANIFEST, "x?y", namespace="lease") is False
    assert seen[0] == "/proxy/apis/akash.network/v2beta2/namespaces/a%2Fb/manifests/..%2Fx"
    assert seen[1] == "/proxy/apis/akash.network/v2beta2/namespaces/lease/manifests/x%3Fy"


async def test_a_label_that_must_be_absent_is_asked_for_so(tmp_path: Path) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.query["labelSelector"])
        return web.json_response({"items": []})

    async with server(tmp_path, handler) as cluster:
        await cluster.list(MANIFEST, labels={"akash.network": None, "a": "b"})
    assert asked == ["!akash.network,a=b"]


class Script:
    """A list answer and watch answers in turn; each watch line is (type, name, version)."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        watching = "watch" in request.query
        self.asked.append(f"watch {request.query['resourceVersion']}" if watching else "list")
        turn = self.turns.pop(0) if self.turns else status(500, "the script is over")
        if isinstance(turn, web.Response):
            return turn
        if not watching:
            items = [obj(name, "5") for name in turn]
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})
        response = web.StreamResponse()
        await response.prepare(request)
        for line in turn:
            await response.write(line if isinstance(line, bytes) else event(*line))
        return response


def obj(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "b", "uid": name, "resourceVersion": version}}


def event(type_: str, name: str, version: str) -> bytes:
    return json.dumps({"type": type_, "object": obj(name, version)}).encode() + b"\n"


GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}\n'


async def told(folder: Path, script: Script, count: int, known: Sequence[str] = ()) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    async with server(folder, script.answer) as cluster:
        watch = cluster.watch(SECRET, namespace="b", known=iter([obj(name, "3") for name in known]))
        for _ in range(count):
            got: WatchEvent = await asyncio.wait_for(anext(watch), 5)
            found.append((got.type, got.object["metadata"]["name"]))
        await watch.aclose()  # type: ignore[attr-defined]
    return found


async def test_a_watch_resumes_at_the_last_bookmark(tmp_path: Path) -> None:
    script = Script(["one"], [("BOOKMARK", "", "9")], [("ADDED", "two", "10")])
    assert await told(tmp_path, script, 2) == [("ADDED", "one"), ("ADDED", "two")]
    assert script.asked == ["list", "watch 5", "watch 9"]


async def test_a_watch_says_what_of_the_known_went_before_it_began(tmp_path: Path) -> None:
    script = Script(status(503, "apiserver not ready"), ["two"], [GONE], ["two"])
    events = await told(tmp_path, script, 3, known=["one", "two"])
    assert events == [("DELETED", "one"), ("ADDED", "two"), ("ADDED", "two")]


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
async def test_an_event_ends_at_a_line_feed_and_at_nothing_else(tmp_path: Path, end: str) -> None:
    """Kubernetes sends such characters of a termination message as they are."""
    message = {**obj("one", "6"), "status": {"message": f"a{end}b"}}
    raw = json.dumps({"type": "MODIFIED", "object": message}, ensure_ascii=False).encode()
    script = Script(["one"], [raw[: len(raw) // 2], raw[len(raw) // 2 :] + b"\n\n" + event("ADDED", "two", "7")])
    events = await told(tmp_path, script, 3)
    assert events == [("ADDED", "one"), ("MODIFIED", "one"), ("ADDED", "two")]
    assert script.asked == ["list", "watch 5"]


async def test_a_watch_that_the_server_ends_at_once_is_asked_for_with_growing_pauses(tmp_path: Path) -> None:
    script = Script(["one"], *([[]] * 1000))
    async with server(tmp_path, script.answer) as cluster:
        watch = cluster.watch(SECRET, namespace="b")
        await anext(watch)
        with suppress(TimeoutError):
            await asyncio.wait_for(anext(watch), 1.0)
    assert len(script.asked) <= 5, "a list, and watches after 0, 0.2, 0.6 and 1.4 s"


async def test_a_watch_says_from_when_to_when_it_is_current(tmp_path: Path) -> None:
    script = Script(["one"], [("ADDED", "two", "6")], status(500, "boom"), ["one"], [("ADDED", "three", "7")])
    said: list[bool | str] = []
    async with server(tmp_path, script.answer) as cluster:
        watch = cluster.watch(SECRET, namespace="b", current=said.append)
        for _ in range(5):
            said.append((await asyncio.wait_for(anext(watch), 5)).object["metadata"]["name"])
        await watch.aclose()  # type: ignore[attr-defined]
    assert said == ["one", True, "two", False, "two", "one", True, "three"]


async def test_an_expired_version_relists_and_says_what_went(tmp_path: Path) -> None:
    script = Script(["one", "two"], [GONE], ["two", "three"], [])
    assert await told(tmp_path, script, 5) == [
        ("ADDED", "one"),
        ("ADDED", "two"),
        ("DELETED", "one"),
        ("ADDED", "two"),
        ("ADDED", "three"),
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([b'{"type":"ADDED","obj'], id="cut in a line"),
        pytest.param([b"null\n"], id="no event"),
        pytest.param([b'{"type":"ADDED","object":null}\n'], id="no object"),
        pytest.param(status(410, "Expired"), id="refused as expired"),
        pytest.param(status(500, "boom"), id="a server error"),
    ],
)
async def test_a_broken_watch_starts_again_from_a_list(tmp_path: Path, trouble: Any) -> None:
    script = Script(["one"], trouble, [], [("ADDED", "two", "7")])
    assert await told(tmp_path, script, 3) == [("ADDED", "one"), ("DELETED", "one"), ("ADDED", "two")]


async def test_a_watch_waits_for_an_api_server_that_is_away_at_first(tmp_path: Path) -> None:
    script = Script(status(503, "apiserver not ready"), status(403, "not yet"), ["one"])
    assert await told(tmp_path, script, 1) == [("ADDED", "one")]


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "clusters: 5", "{}", "clusters: []\ncontexts: []\ncurrent-context: nowhere", "\x00"],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(SettingsError, match=str(file)):
        KubeCluster(file)


@pytest.mark.parametrize("text", ['token: "hunter2', "token: hunter2: x", "token: [hunter2", "[" * 100_000 + "hunter2"])
def test_what_is_wrong_with_a_kubeconfig_shows_no_token_of_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(SettingsError, match=str(file)) as refused:
        KubeCluster(file)
    assert "hunter2" not in str(refused.value)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere"):
        KubeCluster(tmp_path / "nowhere")


async def test_an_object_of_an_unknown_kind_is_not_sent(tmp_path: Path) -> None:
    cluster = KubeCluster(kubeconfig(tmp_path, "http://127.0.0.1:9"))
    with pytest.raises(ValueError, match="ConfigMap is not a kind of the provider"):
        await cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    await cluster.aclose()


def calls(action: str, result: str) -> float:
    return REGISTRY.get_sample_value("provider_kube_calls_total", {"action": action, "result": result}) or 0.0


async def test_requests_are_counted_by_kind_and_result_and_an_absent_object_is_no_failure(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        return status(404, "not found") if request.method == "GET" else status(500, "etcd is away")

    before = calls("secrets-get", "success"), calls("secrets-get", "fail"), calls("secrets-delete", "fail")
    async with server(tmp_path, handler) as cluster:
        assert await cluster.get(SECRET, "x", namespace="y") is None
        with pytest.raises(ClusterError):
            await cluster.delete(SECRET, "x", namespace="y")
    after = calls("secrets-get", "success"), calls("secrets-get", "fail"), calls("secrets-delete", "fail")
    assert tuple(now - then for now, then in zip(after, before, strict=True)) == (1, 0, 1)
