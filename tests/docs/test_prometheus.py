"""The example alerts and the dashboard for Grafana name metrics that exist; each alert fires and rests."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lease.exit_codes import FINE
from provider.observe.scrape import markdown

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "examples" / "prometheus"
NAME = re.compile(r"\b(?:lessor|provider|process)_[a-z_]+")
SUFFIXES = ("_bucket", "_sum", "_count")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> Iterator[dict[str, Any]]:
    yield from json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))["panels"]


def named(expressions: Iterator[str]) -> set[str]:
    return {name for expression in expressions for name in NAME.findall(expression)}


def known() -> set[str]:
    """The metrics of the page, and those that a Python process always has."""
    listed = set(re.findall(r"^\| `(\w+)`", markdown(), re.MULTILINE))
    return listed | {"process_open_fds", "process_max_fds", "process_resident_memory_bytes"}


def unknown(names: set[str]) -> set[str]:
    return {name for name in names if not {name, *(name.removesuffix(suffix) for suffix in SUFFIXES)} & known()}


def test_alerts_name_metrics_that_exist() -> None:
    names = named(rule["expr"] for rule in alerts())
    assert len(names) > 10 and unknown(names) == set()
    assert unknown({"lessor_no_such_thing"})


def test_the_dashboard_names_metrics_that_exist() -> None:
    names = named(target["expr"] for panel in panels() for target in panel.get("targets", ()))
    assert len(names) > 10 and unknown(names) == set()


def test_the_dashboard_is_what_its_table_says_and_no_panel_covers_another() -> None:
    written = runpy.run_path(str(CHECKOUT / "tools/docs/grafana.py"))["text"]()
    assert (EXAMPLES / "dashboard.json").read_text(encoding="utf-8") == written
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in (panel["gridPos"] for panel in panels())
        for x in range(place["w"])
        for y in range(place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23


def test_every_alert_has_a_case_and_says_what_to_do() -> None:
    cases = yaml.safe_load((EXAMPLES / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    assert {case["name"] for case in cases} == {
        *(f"{rule['alert']} fires" for rule in alerts()),
        "nothing fires when all is well",
    }
    for rule in alerts():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith(".") and rule["annotations"]["description"].endswith(".")


def test_promtool_sees_each_alert_fire_and_none_when_all_is_well() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH (.ci/run takes it out of Debian's package prometheus)")
    for command in ("check", "test"):
        file = EXAMPLES / ("alerts.yaml" if command == "check" else "alerts_test.yaml")
        result = subprocess.run([promtool, command, "rules", str(file)], capture_output=True, text=True, check=False)
        assert result.returncode == FINE, result.stdout + result.stderr
