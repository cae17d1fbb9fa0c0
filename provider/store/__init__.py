"""The local database: a cache and a log. Chain and cluster are enough to rebuild what is needed; losing it loses no
lease.
"""

from provider.store.database import Database, open_database, read_database

__all__ = ["Database", "open_database", "read_database"]
