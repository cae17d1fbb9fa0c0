"""What other machines have to know of the last operation on a stack."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stack_notes",
        sa.Column("stack", sa.String(64), primary_key=True),
        sa.Column("machine", sa.String(64), nullable=False),
        sa.Column("sound", sa.Boolean, nullable=False),
        sa.Column("begun", sa.Text, nullable=False),
    )
