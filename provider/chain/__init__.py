"""The chain client: queries, blocks, transactions.

Importing `cosmpy.protos` puts the `cosmos.*` messages where the generated `akash.*` messages look for them.
"""

from cosmpy import protos as _protos

__all__: list[str] = []

assert _protos  # noqa: S101  # imported for its effect on sys.path
