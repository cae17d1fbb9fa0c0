"""The engine's queue in the metrics."""

from __future__ import annotations

from provider.observe.metrics import exposition
from provider.observe.queue import show_load
from stacks.engine.pool import Load
from stacks.priority import Priority


def test_the_queues_depth_and_its_oldest_wait_are_what_they_are_when_asked_for() -> None:
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
