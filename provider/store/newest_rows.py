"""Rows of which the newest of each stack are kept, such as its states. The tables have a `stack` and a growing `id`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BindParameter, Table, bindparam, delete, func, select

from provider.store.async_engine import AsyncConnection

__all__ = ["add_rows", "newest_rows"]


async def newest_rows(
    connection: AsyncConnection, table: Table, stacks: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """The newest row of each of these stacks that has one."""
    newest = select(func.max(table.c.id)).where(table.c.stack.in_(stacks)).group_by(table.c.stack)
    rows = (await connection.execute(select(table).where(table.c.id.in_(newest)))).mappings().all()
    return {row["stack"]: dict(row) for row in rows}


async def add_rows(
    connection: AsyncConnection, table: Table, rows: Collection[Mapping[str, Any]], *, kept: int
) -> None:
    """Add the rows in their order, and remove what is older than the newest `kept` of their stacks."""
    if not rows:
        return
    await connection.execute(table.insert(), list(rows))
    own = table.alias()
    stack: BindParameter[str] = bindparam("of_stack")
    beyond = select(own.c.id).where(own.c.stack == stack).order_by(own.c.id.desc()).offset(kept).limit(1)
    old = delete(table).where(table.c.stack == stack, table.c.id <= beyond.scalar_subquery())
    await connection.execute(old, [{"of_stack": name} for name in {row["stack"] for row in rows}])
