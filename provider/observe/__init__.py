"""Observation for the operator: log lines, metrics, the status documents."""
