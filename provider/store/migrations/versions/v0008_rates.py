"""The rate of a lease, and what of its earnings is not withdrawn yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("lease_money", sa.Column("rate", sa.Text))
    op.add_column("lease_money", sa.Column("unpaid", sa.Text))
