"""Versioned state: tables of values, branched for a transaction and readable at an old height."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

__all__ = ["Branch", "Key", "Reader", "Store", "View"]

Key: TypeAlias = tuple[Any, ...]


class Reader(Protocol):
    """Readable state. Do not change a value in place: copy it, change the copy, set the copy."""

    def get(self, table: str, key: Key) -> Any: ...

    def items(self, table: str, prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
        """The pairs whose key begins with `prefix`, in key order."""
        ...


class Branch:
    """Writes on top of a parent, which get them by `commit`; without it they are rolled back."""

    def __init__(self, parent: Store | Branch) -> None:
        self._parent = parent
        self._writes: dict[str, dict[Key, Any]] = {}

    def get(self, table: str, key: Key) -> Any:
        written = self._writes.get(table)
        return written[key] if written is not None and key in written else self._parent.get(table, key)

    def set(self, table: str, key: Key, value: Any) -> None:
        self._writes.setdefault(table, {})[key] = value

    def delete(self, table: str, key: Key) -> None:
        self.set(table, key, None)

    def items(self, table: str, prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
        merged = dict(self._parent.items(table, prefix))
        merged.update({key: value for key, value in self._writes.get(table, {}).items() if _under(key, prefix)})
        yield from sorted((pair for pair in merged.items() if pair[1] is not None), key=_first)

    def commit(self) -> None:
        for table, values in self._writes.items():
            for key, value in values.items():
                self._parent.set(table, key, value)
        self._writes = {}


class Store:
    """The committed state, and for each key the heights at which it changed."""

    def __init__(self) -> None:
        self.height = 0
        self._tables: dict[str, dict[Key, tuple[list[int], list[Any]]]] = {}

    def get(self, table: str, key: Key) -> Any:
        found = self._tables.get(table, {}).get(key)
        return found[1][-1] if found else None

    def set(self, table: str, key: Key, value: Any) -> None:
        heights, values = self._tables.setdefault(table, {}).setdefault(key, ([], []))
        if heights and heights[-1] == self.height:
            values[-1] = value
        else:
            heights.append(self.height)
            values.append(value)

    def items(self, table: str, prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
        return View(self, self.height).items(table, prefix)

    def history(self, table: str) -> dict[Key, tuple[list[int], list[Any]]]:
        """Every key of the table, with the heights at which it changed and its new values."""
        return self._tables.get(table, {})


class View:
    """The state after the block at `height`."""

    def __init__(self, store: Store, height: int) -> None:
        self._store = store
        self.height = height

    def get(self, table: str, key: Key) -> Any:
        found = self._store.history(table).get(key)
        return self._at(found) if found else None

    def items(self, table: str, prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
        rows = ((key, self._at(row)) for key, row in self._store.history(table).items() if _under(key, prefix))
        yield from sorted(((key, value) for key, value in rows if value is not None), key=_first)

    def _at(self, row: tuple[list[int], list[Any]]) -> Any:
        index = bisect_right(row[0], self.height)
        return row[1][index - 1] if index else None


def _under(key: Key, prefix: Key) -> bool:
    return key[: len(prefix)] == prefix


def _first(pair: tuple[Key, Any]) -> Key:
    return pair[0]
