"""The engine's queue and its plugin in the metrics and the log."""

from __future__ import annotations

from structlog.testing import capture_logs

from provider.metrics import exposition
from provider.observe.queue import log_resident_engine, show_load
from stacks.common.priority import Priority
from stacks.engine import Load


def test_the_metrics_of_the_queue_are_read_at_collection() -> None:
    waiting = dict.fromkeys(Priority, 0)
    loads = [Load(waiting, 0.0, 0, 2)]
    show_load(lambda: loads[-1])
    assert "lessor_engine_busy_workers 0.0" in exposition().decode()

    loads.append(Load(waiting | {Priority.FIRST: 3, Priority.REPAIR: 7}, 12.5, 2, 2))

    text = exposition().decode()
    assert 'lessor_engine_waiting{kind="first deployment"} 3.0' in text
    assert 'lessor_engine_waiting{kind="drift repair"} 7.0' in text
    assert 'lessor_engine_waiting{kind="update"} 0.0' in text
    for line in ("oldest_wait_seconds 12.5", "busy_workers 2.0", "workers 2.0"):
        assert f"lessor_engine_{line}" in text


def test_a_resident_engine_that_cannot_run_is_logged_with_the_reason_and_shown_in_the_metrics() -> None:
    with capture_logs() as lines:
        log_resident_engine("there is no program lessor-engine")
        assert "lessor_engine_resident 0.0" in exposition().decode()
        log_resident_engine("")
    assert "lessor_engine_resident 1.0" in exposition().decode()
    assert [(line["event"], line.get("reason"), line["log_level"]) for line in lines] == [
        ("engine.not_resident", "there is no program lessor-engine", "warning"),
        ("engine.resident", None, "info"),
    ]
