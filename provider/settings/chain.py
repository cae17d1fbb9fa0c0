"""The node and the key."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from provider.settings.kinds import CoinText, Duration, NodeAddress, ap, ours
from provider.units import Coin

__all__ = ["ChainSettings"]


class ChainSettings(BaseModel):
    node: NodeAddress = Field("http://127.0.0.1:26657", validation_alias=ap("NODE"))
    chain_id: str = Field("", validation_alias=ap("CHAIN_ID"), description="empty: the node's, fixed at first contact")
    mnemonic_file: Path | None = Field(None, validation_alias=ours("MNEMONIC_FILE"))
    mnemonic: SecretStr | None = Field(None, validation_alias=ours("MNEMONIC"))
    private_key_file: Path | None = Field(None, validation_alias=ours("PRIVATE_KEY_FILE"), description="64 hex digits")
    key_index: int = Field(0, ge=0, lt=2**31, validation_alias=ours("KEY_INDEX"), description="N of m/44'/118'/0'/0/N")
    provider_address: str = Field("", validation_alias=ap("FROM"), description="checked against the key when given")
    gas_prices: CoinText = Field(Coin("uakt", Decimal("0.025")), validation_alias=ap("GAS_PRICES"))
    gas_adjustment: float = Field(1.5, ge=1, le=10, validation_alias=ap("GAS_ADJUSTMENT"))
    rpc_timeout: Duration = Field(10, gt=0, validation_alias=ap("RPC_QUERY_TIMEOUT"))
    tx_timeout: Duration = Field(30, gt=0, validation_alias=ap("TX_BROADCAST_TIMEOUT"))
    poll_interval: Duration = Field(
        2, gt=0, validation_alias=ours("POLL_INTERVAL"), description="of /status when the websocket is silent"
    )
    close_confirmations: int = Field(
        2, ge=2, le=100, validation_alias=ours("CLOSE_CONFIRMATIONS"), description="heights that must say closed"
    )
