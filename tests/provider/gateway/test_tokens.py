"""Tokens: the published vectors, the rules of claims, and what garbage does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
from datetime import UTC, datetime

import pytest
from ecdsa import SECP256k1, SigningKey
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from provider.chain.keys import key_from_mnemonic
from provider.chain.signatures import verify_signature
from provider.errors import ChainError
from provider.gateway.auth.claims import check_claims, parse_claims
from provider.gateway.auth.keys import AccountKeys
from provider.gateway.auth.tokens import Tokens, adr36_document
from provider.gateway.errors import AuthError
from tests.data import document, read
from tests.provider.gateway.accounts import NOW, Account, b64
from tests.provider.gateway.world import chain_is_away
from tests.world.chain import FakeChain
from tests.world.virtual import VirtualClock

SIGNER = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh"
KEY = bytes.fromhex("03e1fde5cc17f56501ed53d87718df76c135b9a6401dceb53d198111a1eaf85f76")
ACCEPTED = {3, 9, 14, 16, 26, 29, 30, 31}
TENANT = Account.named("tenant")
DAY_S = 24 * 3600


def reader(*accounts: Account, now: float = NOW, leeway: float = 0.0) -> tuple[Tokens, FakeChain]:
    chain, clock = FakeChain(), VirtualClock(now)
    chain.public_keys = {account.address: account.public for account in accounts}
    return Tokens(AccountKeys(chain, clock), clock, leeway=leeway), chain  # type: ignore[arg-type]


async def refusal(tokens: Tokens, token: str) -> tuple[int, str]:
    with pytest.raises(AuthError) as caught:
        await tokens.read(token)
    return caught.value.status, caught.value.text


@pytest.mark.parametrize("case", document("jwt/cases_es256k.json"), ids=str)
def test_the_published_signature_vectors_verify_as_published(case: dict) -> None:
    text, _, signature = case["tokenString"].rpartition(".")
    decoded = unb64(signature)
    algorithm = case["expected"]["alg"]
    wrapped = adr36_document(text.encode(), SIGNER) if algorithm == "ES256KADR36" else text.encode()
    assert verify_signature(wrapped, KEY, decoded) is not case["mustFail"]


def test_signing_as_rfc_6979_says_makes_the_published_tokens_byte_by_byte() -> None:
    """Three of the vectors and the token of the template, whose signer is the published account."""
    signer = key_from_mnemonic(read("jwt/mnemonic").decode())
    assert (signer.address, signer.public_bytes) == (SIGNER, KEY)
    account = Account(SigningKey.from_string(signer.private_bytes, SECP256k1, hashlib.sha256))
    vectors = [case["tokenString"] for case in document("jwt/cases_es256k.json") if not case["mustFail"]]
    template = re.findall(r'"tokenString": "([^"]+)"', read("jwt/cases_jwt.json.tmpl").decode())
    static = next(token for token in template if _claims(token).get("iat") == 1746666103)
    assert (len(vectors), _claims(static)["exp"], _claims(static)["leases"]) == (3, 2046667103, {"access": "full"})
    for token in (*vectors, static):
        header, payload, _ = token.split(".")
        algorithm = json.loads(unb64(header))["alg"]
        text = f"{header}.{payload}".encode()
        message = adr36_document(text, SIGNER) if algorithm == "ES256KADR36" else text
        assert f"{text.decode()}.{b64(account.sign(message))}" == token


def _claims(token: str) -> dict:
    return json.loads(unb64(token.split(".")[1]))


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def claim_cases() -> list[tuple[int, dict]]:
    text = read("jwt/cases_jwt.json.tmpl").decode()
    values = {"Issuer": TENANT.address, "Provider": TENANT.address, "IatCurr": NOW, "NbfCurr": NOW}
    values |= {"Iat24h": NOW + DAY_S, "Nbf24h": NOW + DAY_S, "Exp48h": NOW + 2 * DAY_S}
    for name, value in values.items():
        text = text.replace("{{." + name + "}}", str(value))
    return list(enumerate(json.loads(text), start=1))


def dates_as_numbers(claims: dict) -> dict:
    return {key: int(value) if key in ("iat", "nbf", "exp") else value for key, value in claims.items()}


@pytest.mark.parametrize("algorithm", ["ES256K", "ES256KADR36"])
@pytest.mark.parametrize(("number", "case"), claim_cases())
async def test_the_published_claim_vectors_are_accepted_or_refused(number: int, case: dict, algorithm: str) -> None:
    claims = dates_as_numbers(case["claims"])
    claims = {"version": "", "leases": {"access": ""}} | claims
    own = claims.get("iss") in (None, TENANT.address)
    tokens, chain = reader(TENANT)
    chain.public_keys[SIGNER] = KEY
    token = TENANT.token(claims, alg=algorithm) if own else case["tokenString"]
    if number in ACCEPTED:
        assert (await tokens.read(token)).version == "v1"
    else:
        assert await refusal(tokens, token) == published_refusal(claims)


SCHEMA_ONLY = {10: "expired", 11: "not valid yet", 19: "a provider twice"}
"""Cases that the published schema takes and the server refuses: no schema knows the time (gateway.md §11 8)."""


@pytest.mark.parametrize(("number", "case"), claim_cases())
def test_the_published_schema_takes_the_claims_that_the_server_takes_and_three_more(number: int, case: dict) -> None:
    claims = {"version": "", "leases": {"access": ""}} | dates_as_numbers(case["claims"])
    schema = Draft7Validator(document("jwt/jwt-schema.json"))
    assert schema.is_valid(claims) is (number in ACCEPTED or number in SCHEMA_ONLY)


def published_refusal(claims: dict) -> tuple[int, str]:
    if "iss" not in claims:
        return 401, "JWT is invalid"
    if claims["version"] == "v1" and claims["leases"]["access"] == "full" and claims.get("nbf", 0) == NOW + DAY_S:
        begins, here = (datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in (NOW + DAY_S, NOW))
        return 401, f"JWT is not valid before {begins}; this provider's clock shows {here}"
    return 400, "JWT has invalid claims"


async def test_a_signature_with_the_other_s_is_refused() -> None:
    tokens, _ = reader(TENANT)
    text, _, _ = TENANT.token().rpartition(".")
    signature = TENANT.sign(text.encode())
    high = SECP256k1.order - int.from_bytes(signature[32:], "big")
    assert await refusal(tokens, f"{text}.{b64(signature[:32] + high.to_bytes(32, 'big'))}") == (401, "JWT is invalid")


def test_the_wallet_document_is_the_canonical_one() -> None:
    document = adr36_document(b"abc", SIGNER).decode()
    assert '"value":{"data":"YWJj","signer":"' + SIGNER + '"}' in document
    assert document.startswith('{"account_number":"0","chain_id":"","fee":{"amount":[],"gas":"0"},"memo":"","msgs":[')


async def test_the_signature_of_a_token_is_checked_once_and_its_dates_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[bytes] = []

    def verify(message: bytes, key: bytes, signature: bytes) -> bool:
        checked.append(message)
        return verify_signature(message, key, signature)

    monkeypatch.setattr("provider.gateway.auth.tokens.verify_signature", verify)
    chain, clock = FakeChain(), VirtualClock(NOW)
    chain.public_keys = {TENANT.address: TENANT.public}
    tokens = Tokens(AccountKeys(chain, clock), clock)  # type: ignore[arg-type]
    token = TENANT.token(TENANT.claims(exp=NOW + 60))
    text, _, _ = token.rpartition(".")
    for _ in range(3):
        await tokens.read(token)
    assert len(checked) == 1
    assert await refusal(tokens, f"{text}.{b64(bytes(63) + b'1')}") == (401, "JWT is invalid")
    assert len(checked) == 2, "another signature is another token"
    clock.set(NOW + 61)
    assert await refusal(tokens, token) == (400, "JWT has invalid claims")


async def test_of_many_tokens_of_one_account_few_and_small_ones_are_remembered() -> None:
    tokens, _ = reader(TENANT)
    for number in range(300):
        await tokens.read(TENANT.token(TENANT.claims(jti=str(number))))
    await tokens.read(TENANT.token(TENANT.claims(jti="x" * 2000)))
    assert len(tokens._verified) == 256
    assert not any(len(claims.jti) > 3 for claims in tokens._verified.values())


GARBAGE = {
    "one part": "abc",
    "four parts": "a.b.c.d",
    "empty parts": "..",
    "not base64": "!!.??.**",
    "header is a list": f"{b64(b'[]')}.{b64(b'{}')}.{b64(b'x')}",
    "header nested 50000 deep": f"{b64(b'[' * 50_000)}.{b64(b'{}')}.{b64(b'x')}",
    "alg is a list": f"{b64(json.dumps({'alg': ['ES256K']}).encode())}.{b64(b'{}')}.{b64(b'x')}",
    "alg is null": f"{b64(json.dumps({'alg': None}).encode())}.{b64(b'{}')}.{b64(b'x')}",
    "detached payload": TENANT.token(b64=False, crit=["b64"]),
    "padded": TENANT.token() + "==",
    "not ASCII": "é.é.é",
    "very long": "a" * 70_000,
    "payload is a list": TENANT.raw_token(b"[]"),
    "payload is not JSON": TENANT.raw_token(b"{"),
    "payload is not UTF-8": TENANT.raw_token(b'{"iss":"\xff"}'),
    "payload nested 20000 deep": TENANT.raw_token(b'{"leases":' + b"[" * 20_000),
    "number of 5000 digits": TENANT.raw_token(b'{"iat":' + b"9" * 5000 + b"}"),
    "date is infinite": TENANT.raw_token(b'{"iat":1e999}'),
    "date is true": TENANT.token(TENANT.claims(iat=True)),
    "scope is a text": TENANT.token(TENANT.claims(leases={"access": "scoped", "scope": "logs"})),
    "issuer is a number": TENANT.token(TENANT.claims(iss=5)),
    "issuer in capitals": TENANT.token(TENANT.claims(iss=TENANT.address.upper())),
    "issuer with a wrong checksum": TENANT.token(TENANT.claims(iss=TENANT.address[:-1] + "q")),
    "a byte that is no character": TENANT.token().replace(".", "\udcff.", 1),
    "a character that is not ASCII": TENANT.token().replace(".", "é.", 1),
    "issuer of another chain": TENANT.token(TENANT.claims(iss="cosmos1vtad8680vhdfqvxx0f2yaxa6agdylelmqtyjfr")),
}


@pytest.mark.parametrize("token", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_an_invalid_token_and_nothing_else(token: str) -> None:
    tokens, _ = reader(TENANT)
    assert await refusal(tokens, token) == (401, "JWT is invalid")


@given(st.text() | st.from_regex(r"[\w-]{0,40}\.[\w-]{0,40}\.[\w-]{0,90}", fullmatch=True))
async def test_no_random_text_is_accepted_or_crashes(token: str) -> None:
    tokens, _ = reader(TENANT)
    assert await refusal(tokens, token) == (401, "JWT is invalid")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda item: st.lists(item) | st.dictionaries(st.text(), item),
    )
)
def test_any_json_under_leases_is_refused_or_keeps_the_rules(leases: object) -> None:
    payload = json.dumps(TENANT.claims(leases=leases)).encode()
    with pytest.raises(AuthError) as caught:
        check_claims(parse_claims(payload), NOW)
    assert caught.value.status in (400, 401)


@pytest.mark.parametrize(("now", "holds"), [(NOW, True), (NOW + 899.9, True), (NOW + 900, False), (NOW + 901, False)])
async def test_a_token_holds_from_nbf_until_just_before_exp(now: float, holds: bool) -> None:
    tokens, _ = reader(TENANT, now=now)
    if holds:
        assert (await tokens.read(TENANT.token())).iss == TENANT.address
    else:
        assert await refusal(tokens, TENANT.token()) == (400, "JWT has invalid claims")


@pytest.mark.parametrize(("now", "leeway"), [(NOW - 1, 0.0), (NOW - 5.5, 5.0), (NOW - 3600, 5.0)])
async def test_a_token_that_begins_too_far_ahead_is_refused_with_both_times(now: float, leeway: float) -> None:
    tokens, _ = reader(TENANT, now=now, leeway=leeway)
    begins, here = (datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in (NOW, now // 1))
    text = f"JWT is not valid before {begins}; this provider's clock shows {here}"
    assert await refusal(tokens, TENANT.token()) == (401, text)


@pytest.mark.parametrize("ahead", [0.5, 1, 5])
async def test_a_token_of_a_clock_that_is_a_little_ahead_holds(ahead: float) -> None:
    tokens, _ = reader(TENANT, now=NOW - ahead, leeway=5.0)
    assert (await tokens.read(TENANT.token())).iss == TENANT.address


async def test_the_end_of_a_token_has_no_leeway() -> None:
    tokens, _ = reader(TENANT, now=NOW + 900, leeway=5.0)
    assert await refusal(tokens, TENANT.token()) == (400, "JWT has invalid claims")


@pytest.mark.parametrize("nbf", [10**15, 10**30, 1e300])
async def test_a_begin_that_no_calendar_has_is_refused(nbf: float) -> None:
    tokens, _ = reader(TENANT)
    status, text = await refusal(tokens, TENANT.token(TENANT.claims(nbf=nbf)))
    assert (status, text.startswith("JWT is not valid before 10")) == (401, True)


@pytest.mark.virtual_time
async def test_an_account_without_a_key_is_refused_and_read_again_soon() -> None:
    clock, chain = VirtualClock(NOW), FakeChain()
    tokens = Tokens(AccountKeys(chain, clock), clock)  # type: ignore[arg-type]
    assert await refusal(tokens, TENANT.token()) == (401, "JWT is invalid")
    chain.public_keys[TENANT.address] = TENANT.public
    assert await refusal(tokens, TENANT.token()) == (401, "JWT is invalid")
    await clock.advance(6)
    assert (await tokens.read(TENANT.token())).iss == TENANT.address
    assert chain.calls.count("account_public_key") == 2


@pytest.mark.virtual_time
async def test_a_known_key_is_read_once_a_day() -> None:
    clock, chain = VirtualClock(NOW), FakeChain()
    chain.public_keys[TENANT.address] = TENANT.public
    keys = AccountKeys(chain, clock)  # type: ignore[arg-type]
    for elapsed, queries in ((0, 1), (86_399, 1), (2, 2)):
        await clock.advance(elapsed)
        assert await keys.get(TENANT.address) == TENANT.public
        assert chain.calls.count("account_public_key") == queries


async def test_a_chain_that_does_not_answer_is_not_the_token_s_fault() -> None:
    tokens, chain = reader(TENANT)
    chain_is_away(chain)
    assert await refusal(tokens, TENANT.token()) == (500, "unknown error while processing JWT")
    with pytest.raises(ChainError):
        await chain.account_public_key(TENANT.address)


async def test_the_same_claims_by_another_key_are_refused() -> None:
    tokens, _ = reader(TENANT)
    other = Account.named("other")
    assert await refusal(tokens, other.token(TENANT.claims())) == (401, "JWT is invalid")
    assert hashlib.sha256(other.public).digest() != hashlib.sha256(TENANT.public).digest()


def invented(number: int) -> str:
    return Account.named(f"invented {number}").address


@pytest.mark.virtual_time
async def test_invented_issuers_cause_a_bounded_number_of_queries_and_delay_no_tenant() -> None:
    clock, chain, strangers = VirtualClock(NOW), FakeChain(), FakeChain()
    chain.public_keys[TENANT.address] = TENANT.public
    strangers.gates["account_public_key"] = asyncio.Event()
    keys = AccountKeys(chain, clock, strangers=strangers, is_tenant=lambda address: address == TENANT.address)
    flood = [asyncio.create_task(keys.get(invented(number), peer=f"192.0.2.{number % 8}")) for number in range(400)]
    await asyncio.sleep(0)
    assert await keys.get(TENANT.address, peer="192.0.2.1") == TENANT.public
    strangers.gates["account_public_key"].set()
    answers = await asyncio.gather(*flood, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, AuthError)]
    assert (len(refused), {error.status for error in refused}) == (300, {429})
    assert strangers.calls.count("account_public_key") == 100
    assert chain.calls.count("account_public_key") == 1


@pytest.mark.virtual_time
async def test_one_peer_does_not_use_up_the_queries_of_the_others() -> None:
    clock, chain = VirtualClock(NOW), FakeChain()
    keys = AccountKeys(chain, clock)
    for number in range(100):
        with contextlib.suppress(AuthError):
            await keys.get(invented(number), peer="192.0.2.1")
    assert chain.calls.count("account_public_key") == 30
    assert await keys.get(invented(200), peer="192.0.2.2") is None


@pytest.mark.virtual_time
async def test_known_keys_stay_however_many_strangers_have_none() -> None:
    clock, chain = VirtualClock(NOW), FakeChain()
    chain.public_keys[TENANT.address] = TENANT.public
    keys = AccountKeys(chain, clock)
    await keys.get(TENANT.address)
    for number in range(11_000):
        keys._lookups._keep(f"akash1{number}", None)
    assert await keys.get(TENANT.address) == TENANT.public
    assert chain.calls.count("account_public_key") == 1


@pytest.mark.virtual_time
async def test_simultaneous_requests_of_one_issuer_share_a_query() -> None:
    clock, chain = VirtualClock(NOW), FakeChain()
    keys = AccountKeys(chain, clock)
    assert await asyncio.gather(*(keys.get(TENANT.address) for _ in range(20))) == [None] * 20
    assert chain.calls.count("account_public_key") == 1
