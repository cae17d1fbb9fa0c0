"""The recorded scenario, run again: every transaction, every check before a block, every query at its height.

What is left out is listed here with its reason; everything else is compared strictly, gas alone excepted.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
import pytest
from cosmos.tx.v1beta1 import service_pb2 as txs

from devnet.chain import devnet_genesis
from devnet.chain.app import TxResult
from devnet.chain.genesis import recorded_genesis
from devnet.chain.node import Node
from devnet.chain.rpc_methods import abci_query
from tests.devnet.chain.recording import GENESIS, block_times, rows, transactions, tx_bytes

pytestmark = pytest.mark.xdist_group("chain-replay")

GAS_TEXT = re.compile(r"gasUsed: \d+|gas used: '\d+'")

METHODS_LEFT_OUT = {
    "/app/": "no path of the API: version and simulation of the application interface",
    "/store/": "no path of the API: raw store keys",
    "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo": "another node",
    "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock": "hashes and the validator's signature differ",
    "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight": "hashes and the validator's signature differ",
}
ACCOUNTS_LEFT_OUT = {
    "akash17xpfvakm2amg962yls6f84z3kell8c5lazw8j8": "fee collector: emptied into rewards every block",
}


@dataclass
class Comparison:
    """`wrong` holds what differs, recorded beside answered."""

    matched: int = 0
    wrong: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, what: tuple[Any, ...], wanted: tuple[Any, ...], got: tuple[Any, ...]) -> None:
        if wanted == got:
            self.matched += 1
        else:
            self.wrong.append((*what, wanted[:3], got[:3]))


@dataclass
class Replay:
    """One run of the scenario: transactions, checks before a block, queries; and the node as it was left."""

    node: Node
    transactions: Comparison = field(default_factory=Comparison)
    broadcasts: Comparison = field(default_factory=Comparison)
    queries: Comparison = field(default_factory=Comparison)
    events: Comparison = field(default_factory=Comparison)


@pytest.fixture(scope="module")
def replay() -> Replay:
    run = Replay(_node())
    queries, broadcasts, own = _queries(), _broadcasts(), _own_events()
    for height, time_ns in block_times().items():
        block = run.node.replay(height, time_ns, tx_bytes(height))
        for row, result in zip(transactions().get(height, []), block.results, strict=True):
            run.transactions.add((row["step"], row["label"]), _recorded_result(row), _result(result))
        run.events.add((height,), tuple(own.get(height, [])), tuple(event.to_json() for event in block.events))
        for row in queries.get(height, []):
            _compare_query(run, row)
        for row in broadcasts.get(height, []):
            _compare_broadcast(run, row)
    for row in _future(queries):
        _compare_query(run, row)
    return run


def _node() -> Node:
    return Node(recorded_genesis(GENESIS))


def test_every_recorded_transaction_has_the_recorded_result_and_events(replay: Replay) -> None:
    assert not replay.transactions.wrong
    assert replay.transactions.matched == 344


def test_every_block_has_the_recorded_events_of_its_own(replay: Replay) -> None:
    """Epochs, what AKT costs, what was burned; on this chain no end of a lease is among them."""
    assert not replay.events.wrong
    assert replay.events.matched == len(block_times())


def test_every_recorded_broadcast_has_the_recorded_result(replay: Replay) -> None:
    assert not replay.broadcasts.wrong
    assert replay.broadcasts.matched == 450


def test_every_recorded_query_is_answered_byte_for_byte_at_its_height(replay: Replay) -> None:
    assert not replay.queries.wrong
    assert replay.queries.matched == 1137


def test_of_the_recorded_queries_seven_are_left_out_each_for_a_reason() -> None:
    left_out = [row["path"] for row in rows("queries.jsonl") if _left_out(row)]
    assert len(left_out) == 7
    assert {next(name for name in METHODS_LEFT_OUT if path.startswith(name)) for path in left_out} == set(
        METHODS_LEFT_OUT
    )


def test_the_state_of_an_old_height_stays_readable(replay: Replay) -> None:
    queries = _queries()
    wanted = [row for height in (57, 98, 134, 168) for row in queries[height] if "akash." in row["path"]]
    assert len(wanted) > 200
    for row in wanted:
        reply = abci_query(replay.node, row["path"], bytes.fromhex(row["request"]), row["height"])
        assert base64.b64encode(reply.value).decode() == row.get("response", ""), row["path"]


@pytest.mark.parametrize(("height", "code"), [(-1, 18), (10_000, 26)])
def test_a_missing_height_is_refused(height: int, code: int) -> None:
    assert abci_query(Node(devnet_genesis()), "/akash.market.v1beta5.Query/Params", b"", height).code == code


def _compare_broadcast(run: Replay, row: dict[str, Any]) -> None:
    said, wanted = run.node.app.check(row["tx"]), row["response"]["result"]
    words = (wanted["code"], wanted["codespace"], GAS_TEXT.sub("", wanted["log"]))
    run.broadcasts.add((row["note"],), words, (said.code, said.codespace, GAS_TEXT.sub("", said.log)))


def _compare_query(run: Replay, row: dict[str, Any]) -> None:
    asked = row["height"] if row["height"] > run.node.height else row.get("asked_height", 0)
    reply = abci_query(run.node, row["path"], bytes.fromhex(row["request"]), asked)
    value = base64.b64decode(row.get("response") or "")
    height = row.get("reply_height", row.get("asked_height") or row["height"])
    wanted = (*_comparable(row["path"], row.get("code", 0), row.get("log", ""), value), height)
    got = (*_comparable(row["path"], reply.code, reply.log, reply.value), reply.height)
    run.queries.add((row["height"], row["path"], row["request"][:60]), wanted, got)


def _recorded_result(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["code"], row["codespace"], GAS_TEXT.sub("", row["log"]), row["data"] or None, row["events"]


def _result(result: TxResult) -> tuple[Any, ...]:
    data = base64.b64encode(result.data).decode() if result.data else None
    events = [event.to_json() for event in result.events]
    return result.code, result.codespace, GAS_TEXT.sub("", result.log), data, events


def _broadcasts() -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows("rpc.jsonl"):
        request = row.get("request")
        if (
            not isinstance(request, dict)
            or request.get("method") != "broadcast_tx_sync"
            or "result" not in row["response"]
        ):
            continue
        try:
            tx = base64.b64decode(request["params"].get("tx", ""), validate=True)
        except binascii.Error:
            continue
        found.setdefault(row["after_height"], []).append({**row, "tx": tx})
    return found


def _own_events() -> dict[int, list[dict[str, Any]]]:
    return {row["height"]: row.get("finalize_block_events") or [] for row in rows("blocks.jsonl")}


def _queries() -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows("queries.jsonl"):
        if not _left_out(row):
            found.setdefault(row["height"], []).append(row)
    return found


def _future(queries: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Asked for a height that was never reached."""
    last = max(block_times())
    return [row for height, found in queries.items() if height > last for row in found]


def _left_out(row: dict[str, Any]) -> bool:
    if any(row["path"].startswith(prefix) for prefix in METHODS_LEFT_OUT):
        return not (row["path"].startswith("/cosmos.") and row.get("code"))
    request = bytes.fromhex(row["request"]).decode("latin-1")
    return row["path"].startswith("/cosmos.bank") and any(address in request for address in ACCOUNTS_LEFT_OUT)


_GAS_HOLDERS = {
    "/cosmos.tx.v1beta1.Service/Simulate": (txs.SimulateResponse, "gas_info"),
    "/cosmos.tx.v1beta1.Service/GetTx": (txs.GetTxResponse, "tx_response"),
}


def _comparable(path: str, code: int, log: str, value: bytes) -> tuple[int, str, bytes]:
    """Without the amounts of gas; a recorded panic has its stack and what follows cut off."""
    log = GAS_TEXT.sub("", log).removesuffix(": unknown request") if "<removed>" in log else GAS_TEXT.sub("", log)
    if path in _GAS_HOLDERS and value:
        kind, name = _GAS_HOLDERS[path]
        message = kind.FromString(value)
        getattr(message, name).gas_used = 0
        if path.endswith("GetTx"):
            message.tx_response.raw_log = GAS_TEXT.sub("", message.tx_response.raw_log)
        value = message.SerializeToString(deterministic=True)
    return code, log, value
