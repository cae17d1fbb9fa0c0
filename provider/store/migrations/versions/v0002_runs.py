"""Runs with their reason, leases with their last status, sealed versions.

The rows of `stack_updates` move to `runs`, without their changes, which were not sealed. `public_keys` is dropped:
nothing ever filled it, and checking a token reads the chain anyway.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("public_keys")
    _leases()
    _runs()
    _versions()
    _take_over()


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("namespace", sa.String(64), primary_key=True),
        sa.Column("lease", sa.String(256), nullable=False),
        sa.Column("phase", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=True),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stack", sa.String(64), nullable=False),
        sa.Column("operation", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("result", sa.LargeBinary, nullable=False),
    )
    op.create_index("runs_by_stack", "runs", ["stack", "id"])


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("stack", sa.String(64), primary_key=True),
        sa.Column("spec_hash", sa.String(64), primary_key=True),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        sa.Column("seen_at", sa.Float, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def _take_over() -> None:
    """Copy the rows column by column; a column whose value was not kept stays empty."""
    names = ("stack", "operation", "spec_hash", "started_at", "seconds", "ok", "summary", "error")
    old = sa.table("stack_updates", sa.column("id", sa.Integer), *(sa.column(name) for name in names)).c
    nothing = sa.literal(b"", sa.LargeBinary)
    taken = {
        **{name: old[name] for name in ("stack", "operation", "spec_hash", "started_at", "summary", "error")},
        "reason": sa.literal("not kept"),
        "manifest_hash": sa.literal(""),
        "ended_at": old["started_at"] + old["seconds"],
        "outcome": sa.case((sa.cast(old["ok"], sa.Boolean).is_(sa.true()), "done"), else_="failed"),
        "cause": sa.literal(""),
        "key_id": sa.literal(""),
        "result": nothing,
    }
    new = sa.table("runs", *(sa.column(name) for name in taken))
    op.execute(new.insert().from_select(list(taken), sa.select(*taken.values()).order_by(old["id"])))
    op.drop_table("stack_updates")
