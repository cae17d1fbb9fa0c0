"""Streams of a lease for its tenant and for the operator: logs, events and shells."""
