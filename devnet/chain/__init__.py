"""A simulated Akash chain for development and tests: the modules' state machines behind CometBFT RPC and gRPC.

`app` is the state machine (transactions in, results and state out), `node` makes blocks, `rpc`, `websocket` and
`grpc_server` are the transports. Transactions and signatures are real. The chain behaves as the recorded node
2.1.0-rc12; BME and the oracle behave as far as they were recorded. It is one process without consensus, which keeps
everything in memory.
"""

from __future__ import annotations

from devnet.chain.genesis import ACCOUNT_FUNDS, Genesis, GenesisAccount, devnet_genesis
from devnet.chain.keys import TEST_MNEMONIC, TestKey, derive_key
from devnet.chain.simulation import SimulatedChain

__all__ = [
    "ACCOUNT_FUNDS",
    "TEST_MNEMONIC",
    "Genesis",
    "GenesisAccount",
    "SimulatedChain",
    "TestKey",
    "derive_key",
    "devnet_genesis",
]
