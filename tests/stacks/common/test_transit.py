"""The secrets service: what it gives, whom it serves, and that nothing a peer sends can harm it."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.common.errors import EngineError
from stacks.common.peers import Owners
from stacks.common.transit import MAX_BODY, TransitKey, TransitService

SECRET = b"0123456789abcdef0123456789abcdef"
PLAIN = base64.b64encode(b"a data key").decode()


@pytest.fixture
def service() -> Iterator[TransitService]:
    with TransitService(TransitKey(SECRET)) as service:
        yield service


def ask(service: TransitService, path: str, body: bytes, *, token: str, **headers: str) -> tuple[int, dict[str, Any]]:
    port = int(service.url.rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("PUT", path, body, {"X-Vault-Token": token, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_what_it_encrypts_it_decrypts(service):
    with service.grant() as token:
        status, sealed = ask(service, "/v1/transit/encrypt/k", json.dumps({"plaintext": PLAIN}).encode(), token=token)
        assert status == 200 and sealed["data"]["ciphertext"].startswith("vault:v1:")
        status, opened = ask(service, "/v1/transit/decrypt/k", json.dumps(sealed["data"]).encode(), token=token)
    assert status == 200 and opened == {"data": {"plaintext": PLAIN}}


@pytest.mark.parametrize("token", ["", "x", "ü", "a" * 5000])
def test_a_wrong_token_is_refused(service, token):
    with service.grant():
        status, answer = ask(
            service,
            "/v1/transit/encrypt/k",
            json.dumps({"plaintext": PLAIN}).encode(),
            token=token.encode().decode("latin-1"),
        )
    assert (status, answer) == (403, {"errors": ["permission denied"]})


def test_a_token_is_good_for_its_own_operation_only(service):
    with service.grant() as old:
        pass
    with service.grant() as token:
        assert token != old
        assert ask(service, "/v1/transit/encrypt/k", b"{}", token=old)[0] == 403


BAD = {
    "no JSON": b"{",
    "no object": b"[]",
    "null": b"null",
    "no plaintext": b"{}",
    "no base64": b'{"plaintext": "?"}',
    "a number": b'{"plaintext": 5}',
    "a batch": b'{"batch_input": [{"plaintext": "YQ=="}]}',
    "deeply nested": b"[" * 60_000,
    "not UTF-8": b"\xff\xfe\x00",
    "empty": b"",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_bad_body_is_refused_and_the_next_one_served(service, body):
    with service.grant() as token:
        for verb in ("encrypt", "decrypt"):
            status, answer = ask(service, f"/v1/transit/{verb}/k", body, token=token)
            assert status == 400 and set(answer) == {"errors"}
        good = json.dumps({"plaintext": PLAIN}).encode()
        assert ask(service, "/v1/transit/encrypt/k", good, token=token)[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/transit/encrypt/", "/v1/transit/rewrap/k", "/v2/transit/encrypt/k", f"/v1/transit/encrypt/{'k' * 200}"],
)
def test_another_path_is_refused(service, path):
    with service.grant() as token:
        assert ask(service, path, json.dumps({"plaintext": PLAIN}).encode(), token=token)[0] == 400


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "9" * 30, "-1", "1e3", "", "٣"])
def test_a_huge_body_or_one_of_unknown_length_is_not_read(service, length):
    with service.grant() as token:
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            head = f"PUT /v1/transit/encrypt/k HTTP/1.1\r\nX-Vault-Token: {token}\r\nContent-Length: {length}\r\n\r\n"
            peer.sendall(head.encode())
            said = b"".join(iter(lambda: peer.recv(4096), b""))
    assert said.startswith(b"HTTP/1.1 413"), "and the connection ended, as nothing can follow"


class Strangers(Owners):
    """Says of every peer that it is another user's, and keeps who was asked about."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.asked: list[str] = []

    def is_ours(self, peer: str) -> bool:
        self.asked.append(peer)
        return False


def test_a_process_of_another_user_is_not_even_read():
    made: list[Strangers] = []

    def strangers(port: int) -> Owners:
        made.append(Strangers(port))
        return made[-1]

    with (
        TransitService(TransitKey(SECRET), owners=strangers) as service,
        service.grant() as token,
        pytest.raises((ConnectionError, http.client.HTTPException)),
    ):
        ask(service, "/v1/transit/encrypt/k", json.dumps({"plaintext": PLAIN}).encode(), token=token)
    assert [peer.rpartition(":")[0] for peer in made[0].asked] == ["ipv4:127.0.0.1"], "asked once, before reading"


@given(st.binary(max_size=200), st.text("abcXYZ09-_.", min_size=1, max_size=40))
def test_a_key_of_another_name_or_secret_opens_nothing(plain, name):
    key = TransitKey(SECRET)
    sealed = key.encrypt(name, plain)

    assert key.decrypt(name, sealed) == plain
    for other, under in ((key, name + "x"), (TransitKey(SECRET + b"x"), name)):
        with pytest.raises(ValueError, match="another key"):
            other.decrypt(under, sealed)


@given(st.text(max_size=80))
def test_no_text_at_all_makes_it_do_anything_but_refuse(text):
    for given_text in (text, f"vault:v1:{text}"):
        with pytest.raises(ValueError, match="ciphertext"):
            TransitKey(SECRET).decrypt("k", given_text)


@pytest.mark.parametrize("content", [None, b"", b"short"])
def test_a_key_that_cannot_protect_is_refused(tmp_path, content):
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EngineError):
        TransitKey.load(file)
