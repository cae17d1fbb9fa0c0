"""The node and the key."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, Field, SecretStr, model_validator

from provider.settings.kinds import CoinText, Duration, NodeAddresses, ap, ours
from provider.tls import TlsFiles
from provider.units import Coin

__all__ = ["ChainSettings"]


class ChainSettings(BaseModel):
    node: NodeAddresses = Field(
        "http://127.0.0.1:26657",
        validation_alias=ap("NODE"),
        description="RPC addresses between commas, preferred first",
    )
    more_nodes: NodeAddresses | None = Field(
        None, validation_alias=ours("NODES"), description="further ones, after AP_NODE"
    )
    node_ca_file: Path | None = Field(None, validation_alias=ours("NODE_CA_FILE"), description="PEM; trusted alone")
    node_cert_file: Path | None = Field(None, validation_alias=ours("NODE_CERT_FILE"), description="PEM, ours")
    node_key_file: Path | None = Field(None, validation_alias=ours("NODE_KEY_FILE"), description="PEM, not encrypted")
    chain_id: str = Field("", validation_alias=ap("CHAIN_ID"), description="empty: the node's, fixed at first contact")
    mnemonic_file: Path | None = Field(None, validation_alias=ours("MNEMONIC_FILE"))
    mnemonic: SecretStr | None = Field(None, validation_alias=ours("MNEMONIC"))
    private_key_file: Path | None = Field(None, validation_alias=ours("PRIVATE_KEY_FILE"), description="64 hex digits")
    armored_key_file: Path | None = Field(
        None, validation_alias=ours("ARMORED_KEY_FILE"), description="as akash keys export writes it"
    )
    passphrase_file: Path | None = Field(
        None, validation_alias=ours("PASSPHRASE_FILE"), description="what opens the armored key"
    )
    key_index: int = Field(0, ge=0, lt=2**31, validation_alias=ours("KEY_INDEX"), description="N of m/44'/118'/0'/0/N")
    provider_address: str = Field("", validation_alias=ap("FROM"), description="checked against the key when given")
    gas_prices: CoinText = Field(Coin("uakt", Decimal("0.025")), validation_alias=ap("GAS_PRICES"))
    gas_adjustment: float = Field(1.5, ge=1, le=10, validation_alias=ap("GAS_ADJUSTMENT"))
    rpc_timeout: Duration = Field(10, gt=0, validation_alias=ap("RPC_QUERY_TIMEOUT"))
    tx_timeout: Duration = Field(30, gt=0, validation_alias=ap("TX_BROADCAST_TIMEOUT"))
    tx_timeout_blocks: int = Field(
        20, ge=2, le=1000, validation_alias=ours("TX_TIMEOUT_BLOCKS"), description="in which a transaction may be"
    )
    tx_mode: Annotated[str, Field(pattern="^(batch|sequences|single)$")] = Field(
        "batch", validation_alias=ours("TX_MODE"), description="batch, sequences or single (one after another)"
    )
    tx_batch: int = Field(40, ge=1, le=200, validation_alias=ours("TX_BATCH"), description="messages a transaction")
    fee_granter: str = Field("", validation_alias=ap("FEE_GRANTER"), description="account whose grant pays the fees")
    fee_budget: int = Field(
        0, ge=0, le=10**18, validation_alias=ours("FEE_BUDGET"), description="a day, in the gas price's denom; 0: none"
    )
    poll_interval: Duration = Field(
        2, gt=0, validation_alias=ours("POLL_INTERVAL"), description="of /status when the websocket is silent"
    )
    close_confirmations: int = Field(
        2, ge=2, le=100, validation_alias=ours("CLOSE_CONFIRMATIONS"), description="heights that must say closed"
    )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The RPC addresses, each once, in the order in which they are preferred."""
        return tuple(
            dict.fromkeys(part for text in (self.node, self.more_nodes or "") for part in text.split(",") if part)
        )

    @property
    def node_tls(self) -> TlsFiles:
        """False when no file is set."""
        return TlsFiles(self.node_ca_file, self.node_cert_file, self.node_key_file)

    @model_validator(mode="after")
    def _tls_is_used(self) -> Self:
        if self.node_tls and not any(address.startswith("https://") for address in self.nodes):
            raise ValueError("LESSOR_NODE_…_FILE: none of the addresses in AP_NODE is https, so TLS would not be used")
        return self
