"""The genesis of the chain: accounts with balances, and the modules' parameters."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devnet.chain.keys import ROLES, derive_key

__all__ = [
    "ACCOUNT_FUNDS",
    "BANK_MODULES",
    "Genesis",
    "GenesisAccount",
    "MarketParams",
    "devnet_genesis",
    "recorded_genesis",
]

ACCOUNT_FUNDS = {"uact": 1_000_000_000_000, "uakt": 100_000_000_000_000}
"""A million ACT and a hundred million AKT, more than a test spends."""

BANK_MODULES = (
    "fee_collector",
    "distribution",
    "bonded_tokens_pool",
    "not_bonded_tokens_pool",
    "gov",
    "mint",
    "escrow",
)
_RESERVED_NUMBERS = 100


@dataclass(frozen=True, slots=True)
class GenesisAccount:
    """`number` None selects the next free number; `sequence` and `public_key` are those before the first block.
    `kind`: `continuous`, `delayed`, `periodic` or `locked` for a vesting account, `module`, empty for a plain one.
    """

    address: str
    balances: Mapping[str, int] = field(default_factory=dict)
    number: int | None = None
    sequence: int = 0
    public_key: bytes = b""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class MarketParams:
    """Amounts in micro-denominations, windows in seconds; defaults as in chain.md §11."""

    bid_min_deposits: Mapping[str, int] = field(default_factory=lambda: {"uact": 500_000, "uakt": 500_000})
    order_max_bids: int = 20
    min_reclamation_window: int = 3600
    max_reclamation_window: int = 720 * 3600


@dataclass(frozen=True, slots=True)
class Genesis:
    """`time_ns` None starts at the present. `min_deposits` is the deployment module's parameter."""

    accounts: tuple[GenesisAccount, ...]
    chain_id: str = "lessor-devnet"
    time_ns: int | None = None
    market: MarketParams = field(default_factory=MarketParams)
    min_deposits: Mapping[str, int] = field(default_factory=lambda: {"uakt": 500_000, "uact": 500_000})
    next_account_number: int = _RESERVED_NUMBERS
    gas_price_milli_uakt: int = 25
    """The node's minimum gas price in thousandths of uakt."""
    oracle_sources: tuple[str, ...] = ()
    """Addresses that may publish the price of AKT."""
    price_staleness_seconds: int = 30


def devnet_genesis(
    accounts: Mapping[str, Mapping[str, int]] | None = None, *, chain_id: str = "lessor-devnet", **changes: Any
) -> Genesis:
    """A genesis with these balances by address or role name; without any, every test role holds `ACCOUNT_FUNDS`.

    `changes` are further fields of `Genesis`.
    """
    wanted = accounts if accounts is not None else dict.fromkeys(ROLES, ACCOUNT_FUNDS)
    rows = (GenesisAccount(derive_key(name).address if name in ROLES else name, held) for name, held in wanted.items())
    found = tuple(rows)
    sources = tuple(row.address for name, row in zip(wanted, found, strict=True) if name == "oracle")
    return Genesis(found, chain_id, **{"oracle_sources": sources, **changes})


def recorded_genesis(path: Path) -> Genesis:
    """The genesis of a recorded chain (`genesis.json` of the recording), with the balances its first block leaves."""
    raw = json.loads(path.read_text())
    rows = [_recorded_account(row, raw) for row in raw["accounts"] if row["in_genesis"]]
    later = int(raw["account_created_later"]["account_number"])
    modules = {row["address"]: int(row["account_number"]) for row in raw["module_accounts"]}
    rows += [GenesisAccount(address, number=number) for address, number in modules.items() if number < later]
    params = raw["params_by_query"]
    oracle = params["oracle"]["params"]
    return Genesis(
        tuple(rows),
        raw["chain_id"],
        market=_recorded_market(params["market"]["params"]),
        min_deposits={coin["denom"]: int(coin["amount"]) for coin in params["deployment"]["params"]["min_deposits"]},
        next_account_number=later,
        oracle_sources=tuple(oracle["sources"]),
        price_staleness_seconds=int(oracle["max_price_staleness_period"].removesuffix("s")),
    )


def _recorded_account(row: Mapping[str, Any], raw: Mapping[str, Any]) -> GenesisAccount:
    held = {coin["denom"]: int(coin["amount"]) for coin in row["balances"]}
    if row["role"] == "validator":  # its staking transaction runs before the first block
        fee = sum(int(coin["amount"]) for coin in raw["gentx"]["fee"]["amount"])
        held["uakt"] -= int(raw["gentx"]["stake"].removesuffix("uakt")) + fee
    sequence = row["sequence_after_genesis"]
    public_key = base64.b64decode(row["pubkey_secp256k1_base64"]) if sequence else b""
    return GenesisAccount(row["address"], held, row["account_number"], sequence, public_key)


def _recorded_market(raw: Mapping[str, Any]) -> MarketParams:
    return MarketParams(
        {coin["denom"]: int(coin["amount"]) for coin in raw["bid_min_deposits"]},
        raw["order_max_bids"],
        int(raw["min_reclamation_window"].removesuffix("s")),
        int(raw["max_reclamation_window"].removesuffix("s")),
    )
