"""The bytes of a transaction, signed with one key in SIGN_MODE_DIRECT (chain.md §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosmos.base.v1beta1.coin_pb2 import Coin
from cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmos.tx.signing.v1beta1.signing_pb2 import SIGN_MODE_DIRECT
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, Fee, ModeInfo, SignDoc, SignerInfo, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as Packed

from provider.chain.keys import SigningKey
from provider.protocols.chain import Message

__all__ = ["Terms", "signed", "unsigned"]

_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Terms:
    """What a transaction states beside its messages. `fee` is in `denom`; `granter` empty: the signer pays."""

    sequence: int
    timeout_height: int
    gas: int
    fee: int
    denom: str
    granter: str = ""


def signed(key: SigningKey, messages: Sequence[Message], terms: Terms, *, chain_id: str, number: int) -> bytes:
    """The signed transaction. `number` is the account's number."""
    body, auth = _body(messages, terms), _auth(key, terms)
    document = SignDoc(body_bytes=body, auth_info_bytes=auth, chain_id=chain_id, account_number=number)
    signature = key.private.sign(document.SerializeToString(), deterministic=True)
    raw = TxRaw(body_bytes=body, auth_info_bytes=auth, signatures=[signature])
    return bytes(raw.SerializeToString())


def unsigned(key: SigningKey, messages: Sequence[Message], terms: Terms) -> bytes:
    """The transaction for a simulation, which checks the sequence but no signature; as long as the signed transaction,
    since bytes cost gas.
    """
    raw = TxRaw(
        body_bytes=_body(messages, terms), auth_info_bytes=_auth(key, terms), signatures=[bytes(_SIGNATURE_BYTES)]
    )
    return bytes(raw.SerializeToString())


def _body(messages: Sequence[Message], terms: Terms) -> bytes:
    body = TxBody(messages=[_packed(message) for message in messages], timeout_height=terms.timeout_height)
    return bytes(body.SerializeToString())


def _auth(key: SigningKey, terms: Terms) -> bytes:
    signer = SignerInfo(
        public_key=_packed(PubKey(key=key.public_bytes)),
        mode_info=ModeInfo(single=ModeInfo.Single(mode=SIGN_MODE_DIRECT)),
        sequence=terms.sequence,
    )
    amount = [Coin(denom=terms.denom, amount=str(terms.fee))] if terms.fee else []
    fee = Fee(amount=amount, gas_limit=terms.gas, granter=terms.granter)
    return bytes(AuthInfo(signer_infos=[signer], fee=fee).SerializeToString())


def _packed(message: Message) -> Packed:
    packed = Packed()
    packed.Pack(message, type_url_prefix="/")
    return packed
