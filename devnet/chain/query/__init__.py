"""Queries of the state: one table of handlers keyed by full gRPC method name."""

from __future__ import annotations

from devnet.chain.query.table import METHODS, Method, Query, Transport, answer

__all__ = ["METHODS", "Method", "Query", "Transport", "answer"]
