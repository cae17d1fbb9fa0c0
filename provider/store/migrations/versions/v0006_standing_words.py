"""What the teardown brake holds and operators' directives about removals survive a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "standing_words",
        sa.Column("lease", sa.String(256), primary_key=True),
        sa.Column("word", sa.String(16), primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
    )
