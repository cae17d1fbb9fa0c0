"""The listener against clients that are careless, slow or hostile; and what it logs."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import time
from pathlib import Path

import aiohttp
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from OpenSSL import SSL
from structlog.testing import capture_logs

from lease.errors import ManifestRefused
from lease.go_quote import go_quote
from lease.manifest import Group
from lease.validation import validate_manifest
from provider.errors import SettingsError
from provider.gateway.config import Limits
from provider.gateway.errors import RequestError
from provider.gateway.rest.paths import clean_path, parse_uint
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import DSEQ, TENANT, body, lease, rent
from tests.provider.gateway.world import World, cluster_fails, new_world, parse_answer
from tests.world.patience import eventually


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        yield world


@pytest.fixture
async def impatient(tmp_path: Path):
    async with new_world(tmp_path, limits=Limits(header_seconds=1.0, idle_seconds=4.0)).running() as world:
        yield world


async def test_an_ordinary_client_gets_answers_over_one_connection(world: World) -> None:
    host, port = world.gateway.address
    rent(world, body(), lease())
    headers = {"Authorization": f"Bearer {TENANT.token()}"}
    async with aiohttp.ClientSession(
        f"https://{host}:{port}", connector=aiohttp.TCPConnector(ssl=world.pinned)
    ) as http:
        async with http.get("/address") as answer:
            assert await answer.json() == {"address": world.config.provider}
        async with http.get("/status") as answer:
            document = await answer.json()
            assert document["cluster"] == {"leases": 0, "inventory": {"available": {}}}
            assert document["cluster_public_hostname"] == "provider.example.com"
        async with http.put(f"/deployment/{DSEQ}/manifest", data=body(), headers=headers) as answer:
            assert (answer.status, await answer.read()) == (200, b"")


async def test_the_reclamation_window_is_nanoseconds_and_left_out_when_unset(tmp_path: Path) -> None:
    day = 86_400_000_000_000
    async with new_world(tmp_path, reclamation_window_ns=day, public_hostname="").running() as world:
        document = json.loads((await world.get("/status")).text)
        assert document["reclamation_window"] == day
        assert "cluster_public_hostname" not in document


async def test_a_log_line_has_a_request_id_and_never_a_token_or_a_query(world: World) -> None:
    token = TENANT.token()
    with capture_logs([structlog.contextvars.merge_contextvars]) as lines:
        await world.get("/lease/1/1/1/status?secret=hunter2", token)
        await world.get("/status", "garbage." + token)
        cluster_fails(world.cluster, 0)
        await world.get("/lease/1/1/1/status", token)
    shown = json.dumps(lines)
    assert len(lines) == 4
    assert [line["status"] for line in lines if line["event"] == "gateway.request"] == [404, 401, 503]
    assert len({line["request"] for line in lines}) == 3
    assert "hunter2" not in shown
    assert token.split(".")[1] not in shown
    assert token.split(".")[2] not in shown


async def test_an_internal_error_is_a_500_without_internal_details(world: World) -> None:
    async def fails(*_: object, **__: object) -> None:
        secret = TENANT.token()
        raise RuntimeError(f"/srv/lessor/secret {secret}")

    world.chain.account_public_key = fails  # type: ignore[method-assign]
    with capture_logs() as lines:
        answer = await world.get("/lease/1/1/1/status", TENANT.token())
    assert (answer.status, answer.text) == (500, "internal error\n")
    assert "/srv" not in json.dumps(lines)
    failed = next(line for line in lines if line["event"] == "gateway.request_failed")
    assert failed["error"] == "RuntimeError"
    assert failed["where"][-1].startswith("fails:")


HOSTILE = {
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
    "no version": (b"GET /status\r\n\r\n", 400),
    "version 9": (b"GET /status HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET /status HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    "two lengths": (b"PUT /address HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "length and chunks": (
        b"PUT /address HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "header without a name": (b"GET /status HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400),
    "folded header": (b"GET /status HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
    "huge header": (b"GET /status HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1_100_000 + b"\r\n\r\n", 431),
    "huge path": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "thousand headers": (
        b"GET /status HTTP/1.1\r\nHost: x\r\n" + b"".join(b"H%d: x\r\n" % n for n in range(1000)) + b"\r\n",
        400,
    ),
    "bad escape": (b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400),
    "NUL in the path": (b"GET /lease/%00/1/1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 401),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 301),
    "proxy request": (b"GET https://evil.example/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200),
}


@pytest.mark.parametrize(("data", "status"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_bytes_get_a_short_answer_and_the_next_client_is_served(
    world: World, data: bytes, status: int
) -> None:
    answer = parse_answer(await world.raw(data))
    assert answer.status == status
    assert len(answer.body) < 2000
    for word in (b"aiohttp", b".py", b"Traceback", b"/work"):
        assert word not in answer.body
    assert (await world.get("/address")).status == 200


async def test_a_header_that_stays_incomplete_ends_with_400_in_time(impatient: World) -> None:
    started = time.monotonic()
    answer = await impatient.raw(b"GET /status HTTP/1.1\r\nHost: x\r\n")
    assert time.monotonic() - started > 0.9
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    assert answer == head + b"400 Bad Request"


async def test_dripping_a_header_byte_by_byte_does_not_extend_the_limit(impatient: World) -> None:
    reader, writer = await impatient.connect()

    async def drip() -> None:
        writer.write(b"GET /status HTTP/1.1\r\nX-Slow: ")
        while True:
            writer.write(b"1")
            await asyncio.sleep(0.05)

    task = asyncio.create_task(drip())
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    assert not task.done(), "the answer came while the header still grew"
    task.cancel()
    writer.close()


async def test_a_second_request_may_come_later_but_its_header_is_limited_too(impatient: World) -> None:
    reader, writer = await impatient.connect()
    request = b"GET /address HTTP/1.1\r\nHost: x\r\n"
    writer.write(request + b"\r\n")
    await reader.readuntil(b"}")
    await asyncio.sleep(1.2)
    writer.write(request + b"\r\n")
    await reader.readuntil(b"}")
    writer.write(request)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_an_idle_connection_is_closed_after_a_while(impatient: World) -> None:
    reader, writer = await impatient.connect()
    writer.write(b"GET /address HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"}")
    assert await reader.read() == b""
    writer.close()


async def test_http_1_0_without_a_host_is_served(world: World) -> None:
    assert (await world.raw(b"GET /address HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 200 OK\r\n")


async def test_pipelined_requests_are_answered_in_order(world: World) -> None:
    one = b"GET /address HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /foobar HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answers = await world.raw(one * 2 + last)
    assert [int(part[1:4]) for part in answers.split(b"HTTP/1.1")[1:]] == [200, 200, 404]


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("//status?x=1", "/status?x=1"),
        ("//evil.example/../..", "/"),
        ("/lease/%2e%2e/status", "/status"),
        ("/a//%0d%0aSet-Cookie:x", "/a/%0D%0ASet-Cookie:x"),
    ],
)
async def test_an_unclean_path_is_redirected_to_itself_cleaned_and_nowhere_else(
    world: World, path: str, location: str
) -> None:
    answer = await world.get(path)
    assert (answer.status, answer.header("Location"), answer.body) == (301, location, b"")
    assert answer.header("Set-Cookie") is None


async def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    second = new_world(tmp_path / "second", port=world.gateway.address[1])
    with pytest.raises(SettingsError, match=r"AP_GATEWAY_LISTEN_ADDRESS=.*in use"):
        async with second.running():
            pass
    with pytest.raises(RuntimeError, match="not started"):
        assert second.gateway and second.gateway.address


async def test_stopping_ends_the_listener_and_starting_again_serves_the_same_certificate(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    async with world.running():
        first, (host, port) = world.gateway.served.account.pem, world.gateway.address
    with pytest.raises(OSError):
        await asyncio.open_connection(host, port)
    async with world.running():
        assert world.gateway.served.account.pem == first


@pytest.mark.parametrize(
    ("text", "bits", "expected"),
    [
        ("0", 64, 0),
        ("007", 32, 7),
        ("18446744073709551615", 64, 2**64 - 1),
        ("18446744073709551616", 64, "value out of range"),
        ("4294967296", 32, "value out of range"),
        ("9" * 5000, 64, "value out of range"),
        ("", 64, "invalid syntax"),
        ("+1", 64, "invalid syntax"),
        ("1_0", 64, "invalid syntax"),
        ("٣", 64, "invalid syntax"),
        ("0x10", 64, "invalid syntax"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_numbers_in_paths_are_read_as_go_reads_them(text: str, bits: int, expected: object) -> None:
    if isinstance(expected, int):
        assert parse_uint(text, bits) == expected
    else:
        with pytest.raises(RequestError) as caught:
            parse_uint(text, bits)
        assert caught.value.text == f'strconv.ParseUint: parsing "{text}": {expected}'


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_cleaning_a_path_twice_is_cleaning_it_once(path: str) -> None:
    cleaned = clean_path(path)
    assert clean_path(cleaned) == cleaned
    assert cleaned.startswith("/")
    assert "//" not in cleaned


@pytest.mark.parametrize(
    ("text", "quoted"),
    [('a"b', r'"a\"b"'), ("a\nb\x00", r'"a\nb\x00"'), ("é", '"é"'), ("\udcff", r'"\xff"'), ("\u202e", r'"\u202e"')],
)
def test_a_value_in_an_error_text_is_quoted_as_go_quotes_it(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_a_name_in_the_refusal_of_a_manifest_is_quoted_as_go_quotes_it() -> None:
    group = Group('a "quoted"\n\x01 é name', ())
    with pytest.raises(ManifestRefused, match=re.escape('group "a \\"quoted\\"\\n\\x01 é name" contains no services')):
        validate_manifest((group,))


async def test_a_connection_that_has_ended_holds_nothing_of_openssl(world: World) -> None:
    """Else it would until the next collection of garbage, thousands of connections later."""

    def alive() -> int:
        return sum(type(each) is SSL.Connection for each in gc.get_objects())

    async def none_alive() -> bool:
        return alive() == 0

    gc.collect()
    gc.disable()
    try:
        host, port = world.gateway.address
        reader, writer = await asyncio.open_connection(host, port, ssl=world.pinned)
        assert alive() == 1
        writer.write(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        writer.close()
        await eventually(none_alive)
    finally:
        gc.enable()
