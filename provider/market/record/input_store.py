"""The inputs of decisions, each different value stored once: groups, rules, records and quotes repeat."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import insert, select

from lease.groups import GroupSpec
from lease.resources import Attribute
from provider.errors import StoreError
from provider.market.pricing.quote import Quote
from provider.market.terms import Rules
from provider.protocols.chain import ProviderRecord
from provider.store.async_engine import AsyncConnection
from provider.store.tables import decision_inputs

__all__ = ["InputStore", "input_from", "read_input"]

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "spec": TypeAdapter(GroupSpec),
    "record": TypeAdapter(ProviderRecord),
    "rules": TypeAdapter(Rules),
    "audits": TypeAdapter(dict[str, tuple[Attribute, ...]]),
    "quote": TypeAdapter(Quote),
}
_REMEMBERED = 4096


@dataclass(slots=True)
class _Last:
    value: object
    digest: bytes
    body: bytes


class InputStore:
    """Stores inputs. It remembers the numbers of recent ones, so that an input that repeats costs no query."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._last: dict[str, _Last] = {}

    def forget(self) -> None:
        """Query again: after a transaction that failed, or rows that were removed."""
        self._numbers.clear()

    async def keep(self, connection: AsyncConnection, kind: str, value: object) -> int:
        """The number of the row that holds `value`."""
        last = self._last.get(kind)
        if last is None or last.value is not value:
            body = _ADAPTERS[kind].dump_json(value)
            digest = hashlib.sha256(kind.encode() + b"\0" + body).digest()[:16]
            last = self._last[kind] = _Last(value, digest, body)
        if last.digest not in self._numbers:
            if len(self._numbers) >= _REMEMBERED:
                self._numbers.clear()
            self._numbers[last.digest] = await _number(connection, kind, last)
        return self._numbers[last.digest]


async def _number(connection: AsyncConnection, kind: str, item: _Last) -> int:
    known = select(decision_inputs.c.id).where(decision_inputs.c.digest == item.digest)
    found: int | None = (await connection.execute(known)).scalar_one_or_none()
    if found is not None:
        return found
    row = {"digest": item.digest, "kind": kind, "body": zlib.compress(item.body, 9)}
    result = await connection.execute(insert(decision_inputs).values(row))
    return int((result.inserted_primary_key or (0,))[0])


async def read_input(connection: AsyncConnection, kind: str, number: int) -> Any:
    """The input with this number. Raises `StoreError` when it is not kept any more or cannot be read."""
    query = select(decision_inputs.c.body).where(decision_inputs.c.id == number)
    return input_from(kind, number, (await connection.execute(query)).scalar_one_or_none() or b"")


def input_from(kind: str, number: int, body: bytes) -> Any:
    """The input that a row holds. Raises `StoreError` when it cannot be read."""
    try:
        return _ADAPTERS[kind].validate_json(zlib.decompress(body))
    except (zlib.error, ValidationError) as error:
        raise StoreError(f"decision input {number} ({kind}) cannot be read: {error}") from error
