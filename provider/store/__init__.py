"""The local database: a cache and a log. Losing it loses no lease: chain and cluster are enough to rebuild what is
needed.
"""

from provider.store.database import Database, newest_schema, open_database, read_database

__all__ = ["Database", "newest_schema", "open_database", "read_database"]
