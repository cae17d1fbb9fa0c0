"""Writes the dashboard for Grafana (`examples/prometheus/dashboard.json`) from a table of panels: `make docs`.

A panel is a title, a unit of Grafana's, and queries with their legends. Rows have up to four panels of equal width.
"""

from __future__ import annotations

import json
import sys
from typing import Any

__all__ = ["dashboard", "text"]

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 24, 8
_JOB = 'job="$job"'

Query = tuple[str, str]
Panel = tuple[str, str, list[Query]]

ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Now",
        [
            ("Leases", "none", [(f"sum by (phase) (lessor_leases{{{_JOB}}})", "{{phase}}")]),
            (
                "Seconds since the last block",
                "s",
                [(f"time() - lessor_chain_height_timestamp_seconds{{{_JOB}}}", "age")],
            ),
            ("Account", "none", [(f"lessor_wallet{{{_JOB}}} / 1e6", "{{denom}} / 1e6")]),
            ("Removals that the brake holds", "none", [(f"lessor_teardown_held{{{_JOB}}}", "held")]),
        ],
    ),
    (
        "Market",
        [
            (
                "Decisions an hour",
                "none",
                [(f"sum by (verdict) (increase(lessor_decisions_total{{{_JOB}}}[1h]))", "{{verdict}}")],
            ),
            (
                "Why orders were declined, an hour",
                "none",
                [(f"topk(8, sum by (check) (increase(lessor_declined_total{{{_JOB}}}[1h])))", "{{check}}")],
            ),
            (
                "Ends of orders, a day",
                "none",
                [(f"sum by (result) (increase(provider_order_complete_total{{{_JOB}}}[1d]))", "{{result}}")],
            ),
            (
                "Bids that are on no chain, an hour",
                "none",
                [(f"increase(lessor_bids_unsent_total{{{_JOB}}}[1h])", "{{why}}")],
            ),
        ],
    ),
    (
        "Capacity",
        [
            (
                f"{title} in use",
                "percentunit",
                [
                    (
                        f'1 - provider_inventory_available_total{{{_JOB}, quantity="{quantity}"}}'
                        f' / (provider_inventory_allocatable_total{{{_JOB}, quantity="{quantity}"}} > 0)',
                        quantity,
                    )
                ],
            )
            for title, quantity in (("Processors", "cpu"), ("Memory", "memory"), ("Cards", "gpu"))
        ]
        + [
            (
                "Reservations",
                "none",
                [(f'provider_inventory_reservations_total{{{_JOB}, classification="none"}}', "{{quantity}}")],
            )
        ],
    ),
    (
        "Engine",
        [
            (
                "Seconds of an operation, 95th percentile",
                "s",
                [
                    (
                        "histogram_quantile(0.95, sum by (le, operation)"
                        f" (rate(lessor_stack_seconds_bucket{{{_JOB}}}[15m])))",
                        "{{operation}}",
                    )
                ],
            ),
            (
                "Operations an hour",
                "none",
                [
                    (
                        f"sum by (operation, result) (increase(lessor_stack_operations_total{{{_JOB}}}[1h]))",
                        "{{operation}} {{result}}",
                    )
                ],
            ),
            ("Waiting for a worker", "none", [(f"sum by (kind) (lessor_engine_waiting{{{_JOB}}})", "{{kind}}")]),
            ("Longest wait", "s", [(f"lessor_engine_oldest_wait_seconds{{{_JOB}}}", "wait")]),
        ],
    ),
    (
        "Gateway, API server, process",
        [
            ("Streams", "none", [(f"sum by (kind) (lessor_gateway_streams{{{_JOB}}})", "{{kind}}")]),
            (
                "Refusals a minute",
                "none",
                [(f"sum by (reason) (rate(lessor_gateway_refused_total{{{_JOB}}}[5m])) * 60", "{{reason}}")],
            ),
            (
                "Requests to the API server a second",
                "reqps",
                [(f"sum by (result) (rate(provider_kube_calls_total{{{_JOB}}}[5m]))", "{{result}}")],
            ),
            ("Memory", "bytes", [(f"process_resident_memory_bytes{{{_JOB}}}", "daemon")]),
        ],
    ),
]


def dashboard() -> dict[str, Any]:
    """The dashboard in Grafana's form (schema 39). It asks for a data source and for the job's name."""
    panels: list[dict[str, Any]] = []
    for number, (title, row) in enumerate(ROWS):
        top = number * (_HEIGHT + 1)
        panels.append({"type": "row", "title": title, "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": top}, "panels": []})
        width = _WIDTH // len(row)
        for column, panel in enumerate(row):
            panels.append(_panel(panel, {"h": _HEIGHT, "w": width, "x": column * width, "y": top + 1}))
    for number, each in enumerate(panels, 1):
        each["id"] = number
    return {
        "title": "Lessor",
        "uid": "lessor",
        "schemaVersion": 39,
        "tags": ["akash", "lessor"],
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [_source_variable(), _job_variable()]},
        "panels": panels,
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    title, unit, queries = panel
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


def _source_variable() -> dict[str, Any]:
    return {"type": "datasource", "name": "source", "label": "Data source", "query": "prometheus"}


def _job_variable() -> dict[str, Any]:
    return {
        "type": "query",
        "name": "job",
        "label": "Job",
        "datasource": _SOURCE,
        "query": "label_values(lessor_chain_height, job)",
        "refresh": 1,
    }


if __name__ == "__main__":
    sys.stdout.write(text())
