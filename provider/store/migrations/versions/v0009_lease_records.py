"""Manifests that were accepted, the states of each lease, and who had which hostname and address."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lease_states",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stack", sa.String(64), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("phase", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("lease_states_by_stack", "lease_states", ["stack", "id"])
    op.create_table(
        "manifests",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stack", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("accepted_at", sa.Float, nullable=False),
        sa.Column("last_at", sa.Float, nullable=False),
        sa.Column("times", sa.Integer, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("services", sa.Integer, nullable=False),
    )
    op.create_index("manifests_by_stack", "manifests", ["stack", "id"])
    op.create_table(
        "claims",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(256), nullable=False),
        sa.Column("port", sa.String(16), nullable=False),
        sa.Column("service", sa.String(256), nullable=False),
        sa.Column("stack", sa.String(64), nullable=False),
        sa.Column("lease", sa.String(256), nullable=False),
        sa.Column("given_at", sa.Float, nullable=False),
        sa.Column("released_at", sa.Float, nullable=True),
    )
    op.create_index("claims_by_stack", "claims", ["stack", "id"])
    op.create_index("claims_by_name", "claims", ["name", "id"])
    op.create_index("claims_by_end", "claims", ["released_at"])
