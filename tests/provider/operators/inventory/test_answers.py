"""A node that was broken into answers what it likes: nothing of it ends the operator or spoils what others read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provider.operators.inventory.answers import hardware
from provider.operators.inventory.documents import node_message
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.state import NodeState

NONE = ResourcePair()


def processor(**fields: Any) -> dict[str, Any]:
    return {"cpu": {"processors": [{"id": 0, **fields}]}}


@pytest.mark.parametrize(
    "text",
    [
        '{"cpu": [1]}',
        '{"cpu": {"processors": [7]}}',
        '{"cpu": {"processors": [{}]}}',
        '{"cpu": {"processors": [{"id": 0, "total_threads": 1e999}]}}',
        '{"cpu": {"processors": [{"id": 0, "total_threads": "many"}]}}',
        '{"memory": {"modules": [{"size_bytes": Infinity}]}}',
        '{"memory": {"modules": [{"size_bytes": NaN}]}}',
        '{"gpu": {"cards": [{"pci": {"vendor": "nvidia"}}]}}',
        '{"features": [1]}',
    ],
)
def test_an_answer_of_another_form_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="another form"):
        hardware(json.loads(text))


@pytest.mark.parametrize(("threads", "vcores"), [(64, 64), (-1, 0), (2**40, 2**32 - 1)])
def test_a_number_of_threads_fits_the_message_that_others_read(threads: int, vcores: int) -> None:
    found = hardware(processor(total_threads=threads))
    message = node_message(NodeState("n", NONE, NONE, NONE, NONE, hardware=found))
    assert message.resources.cpu.info[0].vcores == vcores
