"""Frames, masking, and what the daemon's side must never import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stacks.common.masking import mask
from stacks.common.results import Operation, ResourceChange, StackResult
from stacks.common.wire import Result, Task, decode, encode
from tests.stacks.leases import CANARY, PASSWORD, demo

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)  # type: ignore[arg-type]
changes = st.builds(ResourceChange, texts, texts, texts, texts, st.lists(texts, max_size=3).map(tuple))
results = st.builds(
    StackResult,
    st.sampled_from(Operation),
    texts,
    st.booleans(),
    st.floats(0, 1e6),
    st.lists(changes, max_size=3).map(tuple),
    st.dictionaries(texts, st.integers(0, 99), max_size=3),
    texts,
    st.dictionaries(texts, texts, max_size=3),
)


@given(results)
def test_a_result_crosses_the_pipe_unchanged(result):
    frame = encode(Result(result=result))

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(frame[4:], to_worker=False) == Result(result=result)


def test_a_spec_crosses_the_pipe_with_its_secrets():
    task = Task(operation=Operation.UP, stack="s", spec=demo())

    body = encode(task)[4:]

    assert CANARY.encode() in body
    assert decode(body, to_worker=True).spec.content_hash() == task.spec.content_hash()  # type: ignore[union-attr]


def test_a_spec_in_a_message_or_a_traceback_shows_no_secret():
    task = Task(operation=Operation.UP, stack="s", spec=demo())

    assert CANARY not in repr(task) and PASSWORD not in str(task)


@pytest.mark.parametrize("change", [b'"kind":"tusk"', b'"kind":"result"', b'"kind":7'])
def test_a_frame_that_is_not_understood_is_an_error_without_its_content(change):
    body = encode(Task(operation=Operation.UP, stack="s", spec=demo()))[4:].replace(b'"kind":"task"', change)

    with pytest.raises(ValidationError) as error:
        decode(body, to_worker=True)
    assert CANARY not in str(error.value)


@given(st.binary(max_size=200))
def test_rubbish_on_the_pipe_is_a_validation_error(body):
    with pytest.raises(ValidationError):
        decode(body, to_worker=True)


def test_secrets_of_the_tenant_are_masked_and_names_of_the_provider_are_not():
    spec = demo()

    text = mask(f"invalid value {CANARY}: for {spec.lease.owner} with {PASSWORD}", spec)

    assert CANARY not in text and PASSWORD not in text
    assert spec.lease.owner in text


def test_the_daemons_side_imports_no_pulumi():
    program = (
        "import sys, stacks.engine, stacks.common.results\n"
        "from pathlib import Path\n"
        "e = stacks.engine.PulumiEngine(stacks.engine.EngineConfig(data='d', kubeconfig='k', pulumi='/p'))\n"
        "wrong = ('pulumi', 'pulumi_kubernetes', 'pulumi_policy', 'grpc')\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in wrong]\n"
        "assert not bad, bad\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr


def test_the_engine_is_what_the_provider_asks_for():
    from provider.protocols import StackEngine
    from stacks.engine import PulumiEngine

    def takes(engine: StackEngine) -> None: ...

    for name in ("preview", "up", "refresh", "destroy", "stacks"):
        assert callable(getattr(PulumiEngine, name))
    takes(PulumiEngine.__new__(PulumiEngine))  # checked by mypy
