"""The chain's nodes, the key that signs, and transactions."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator

from provider.settings.kinds import RELOADED, CoinText, Duration, NodeAddresses, ap, lessor
from provider.tls import TlsFiles
from provider.units import Coin

__all__ = ["ChainSettings"]


class ChainSettings(BaseModel, defer_build=True):
    """Chain, key and transactions"""

    node: NodeAddresses = Field(
        "http://127.0.0.1:26657",
        validation_alias=ap("NODE"),
        description="RPC addresses of the chain's nodes, the preferred one first.",
    )
    more_nodes: NodeAddresses | None = Field(
        None, validation_alias=lessor("NODES"), description="Further RPC addresses, used after those of AP_NODE."
    )
    node_ca_file: Path | None = Field(
        None,
        validation_alias=lessor("NODE_CA_FILE"),
        description="PEM file of the certificate authorities that nodes' certificates must come from. "
        "When set, no other authority is trusted.",
    )
    node_cert_file: Path | None = Field(
        None, validation_alias=lessor("NODE_CERT_FILE"), description="PEM file of the client certificate sent to nodes."
    )
    node_key_file: Path | None = Field(
        None,
        validation_alias=lessor("NODE_KEY_FILE"),
        description="PEM file of the client certificate's key, not encrypted. "
        "Empty: the key is in LESSOR_NODE_CERT_FILE.",
    )
    chain_id: str = Field(
        "",
        validation_alias=ap("CHAIN_ID"),
        description="Id of the chain, such as `akashnet-2`. Empty: the id that the first node names, from then on.",
    )
    mnemonic_file: Path | None = Field(
        None,
        validation_alias=lessor("MNEMONIC_FILE"),
        description="File with the mnemonic of the provider's account, mode 0600. "
        "Exactly one source of the key must be set.",
    )
    mnemonic: SecretStr | None = Field(
        None,
        validation_alias=lessor("MNEMONIC"),
        description="The mnemonic itself, where a file is not possible. Processes of the same user can read it.",
    )
    private_key_file: Path | None = Field(
        None,
        validation_alias=lessor("PRIVATE_KEY_FILE"),
        description="File with the private key as 64 hexadecimal digits, mode 0600.",
    )
    armored_key_file: Path | None = Field(
        None,
        validation_alias=lessor("ARMORED_KEY_FILE"),
        description="File written by `akash keys export`. LESSOR_PASSPHRASE_FILE opens it.",
    )
    keyring_file: Path | None = Field(
        None,
        validation_alias=lessor("KEYRING_FILE"),
        description="File of a Go provider's keyring, `~/.akash/keyring-file/<name>.info` or one in `keyring-test`. "
        "LESSOR_PASSPHRASE_FILE opens it; `keyring-test` needs none.",
    )
    passphrase_file: Path | None = Field(
        None,
        validation_alias=lessor("PASSPHRASE_FILE"),
        description="File with the passphrase of LESSOR_ARMORED_KEY_FILE or LESSOR_KEYRING_FILE.",
    )
    key_index: int = Field(
        0,
        ge=0,
        lt=2**31,
        validation_alias=lessor("KEY_INDEX"),
        description="Index N of the key on the derivation path m/44'/118'/0'/0/N of the mnemonic.",
    )
    provider_address: str = Field(
        "",
        validation_alias=ap("FROM"),
        description="Address of the provider (`akash1…`). When set, the key must belong to it.",
    )
    gas_prices: CoinText = Field(
        Coin("uakt", Decimal("0.025")), validation_alias=ap("GAS_PRICES"), description="Price paid for one unit of gas."
    )
    gas_adjustment: float = Field(
        1.5,
        ge=1,
        le=10,
        validation_alias=ap("GAS_ADJUSTMENT"),
        description="Factor on the gas that a simulation of the transaction used.",
    )
    rpc_timeout: Duration = Field(
        10, gt=0, validation_alias=ap("RPC_QUERY_TIMEOUT"), description="Longest wait for a node's answer to a query."
    )
    tx_timeout: Duration = Field(
        30,
        gt=0,
        validation_alias=ap("TX_BROADCAST_TIMEOUT"),
        description="Longest wait for a node to accept a transaction.",
    )
    tx_timeout_blocks: int = Field(
        20,
        ge=2,
        le=1000,
        validation_alias=lessor("TX_TIMEOUT_BLOCKS"),
        description="Number of blocks in which a transaction is valid. "
        "Nothing in it is sent again before they are over.",
    )
    tx_mode: Literal["batch", "sequences", "single"] = Field(
        "batch",
        validation_alias=lessor("TX_MODE"),
        description="`batch`: messages share transactions, several of which wait for a block. `sequences`: one message "
        "a transaction, several wait. `single`: one message a transaction, one after another.",
    )
    tx_batch: int = Field(
        40,
        ge=1,
        le=200,
        validation_alias=lessor("TX_BATCH"),
        description="Most messages in one transaction, with LESSOR_TX_MODE=batch.",
    )
    fee_granter: str = Field(
        "",
        validation_alias=ap("FEE_GRANTER"),
        description="Address of the account whose fee grant pays the fees. Empty: the provider's account pays.",
    )
    fee_limit: int = Field(
        10_000_000,
        ge=0,
        le=10**18,
        validation_alias=lessor("FEE_LIMIT"),
        json_schema_extra={RELOADED: True},
        description="Most that one transaction may cost, in micro-units of the gas price's denom. A transaction that "
        "would cost more is not signed. 0: no limit.",
    )
    fee_budget: int = Field(
        100_000_000,
        ge=0,
        le=10**18,
        validation_alias=lessor("FEE_BUDGET"),
        json_schema_extra={RELOADED: True},
        description="Most that fees may cost in 24 hours, in micro-units of the gas price's denom. 0: no limit.",
    )
    poll_interval: Duration = Field(
        2,
        gt=0,
        validation_alias=lessor("POLL_INTERVAL"),
        description="Time between two questions for the newest height while the node's websocket is silent.",
    )
    close_confirmations: int = Field(
        2,
        ge=2,
        le=100,
        validation_alias=lessor("CLOSE_CONFIRMATIONS"),
        description="Number of heights at which the chain must call a lease closed before it is removed.",
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
