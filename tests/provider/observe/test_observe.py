"""Logs without secrets; metrics in one registry."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog
from pydantic import SecretStr

from provider.metrics import DECISIONS, REGISTRY, exposition
from provider.observe.logs import configure_logging, hide_secrets
from provider.settings import LogFormat


@pytest.fixture(autouse=True)
def own_structlog() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "fields",
    [
        {"mnemonic": "hunter2"},
        {"registry_password": "hunter2"},
        {"x": SecretStr("hunter2")},
        {"env": {"API_KEY": "hunter2", "nested": [{"token": "hunter2"}]}},
        {"private_key": b"hunter2"},
        {"Authorization": "hunter2"},
    ],
)
@pytest.mark.parametrize("form", LogFormat)
def test_a_secret_is_printed_as_stars(form: LogFormat, fields: dict[str, object]) -> None:
    stream = io.StringIO()
    configure_logging(form=form, stream=stream)
    structlog.get_logger().info("an.event", order="akash1x/1", **fields)
    assert "hunter2" not in stream.getvalue()
    assert "***" in stream.getvalue()
    assert "akash1x/1" in stream.getvalue()


def test_json_lines_are_json_with_time_and_level() -> None:
    stream = io.StringIO()
    configure_logging(form=LogFormat.JSON, level="warning", stream=stream)
    structlog.get_logger().info("hidden")
    structlog.get_logger().warning("shown", height=5)
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert (found["event"], found["level"], found["height"]) == ("shown", "warning", 5)
    assert found["timestamp"].endswith("Z")


def test_other_values_are_printed_unchanged() -> None:
    event = {"event": "x", "reasons": ("a", "b"), "count": 3}
    assert hide_secrets(None, "info", event) == {"event": "x", "reasons": ["a", "b"], "count": 3}


def test_the_registry_is_served_as_open_metrics() -> None:
    DECISIONS.labels("declined").inc()
    text = exposition().decode()
    assert 'lessor_decisions_total{verdict="declined"}' in text
    assert text.endswith("# EOF\n")
    assert REGISTRY


def test_a_tenants_text_does_not_control_the_operators_terminal() -> None:
    stream = io.StringIO()
    configure_logging(form=LogFormat.CONSOLE, stream=stream)
    evil = "\x1b[2Jgone\u202e\nanother line"
    structlog.get_logger().info("an.event", plain=evil, reasons=[evil], nodes={evil: [evil]})
    structlog.get_logger().info("lines", text="one\ntwo")
    said = stream.getvalue()
    assert "\x1b" not in said, "a file or pipe gets no colours either"
    assert "\u202e" not in said
    assert "gone" in said
    assert len(said.splitlines()) == 2
