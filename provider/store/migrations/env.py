"""The script that Alembic runs. It uses an open connection and reads no configuration file."""

from __future__ import annotations

from alembic import context

from provider.store.tables import metadata

__all__: list[str] = []

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
