"""`lessor diff`, `lessor pulumi` and `lessor policy audit` on stacks in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.tools import Toolbox
from provider.cli.next_version import NoDiff
from provider.cli.trial import preview_beside
from stacks.engine import EngineConfig, EngineError, PulumiEngine, exported_state, recorded_objects, recorded_stacks
from stacks.stock_cli import place_stack, run_stock
from tests.stacks.leases import CANARY, small
from tests.world.postgresql_server import PostgresqlServer, a_postgresql


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    with a_postgresql() as made:
        yield made


@pytest.fixture
def config(toolbox: Toolbox, server: PostgresqlServer, tmp_path: Path) -> EngineConfig:
    """The settings of one machine; the kubeconfig is that of nothing."""
    (tmp_path / "key").write_text(secrets.token_urlsafe(32))
    (tmp_path / "kubeconfig").write_text("{}")
    return EngineConfig(
        data=tmp_path / "engine",
        kubeconfig=tmp_path / "kubeconfig",
        pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home,
        workers=1,
        engine="stock",
        key=tmp_path / "key",
        backend=f"postgres://lessor@127.0.0.1:{server.port}/postgres?sslmode=disable",
    )


def another_machine(config: EngineConfig) -> EngineConfig:
    return config.model_copy(update={"data": config.data.with_name("another")})


async def test_an_empty_backend_has_no_stack_and_a_dead_one_is_named_until_it_is_back(
    config: EngineConfig, server: PostgresqlServer
) -> None:
    assert await asyncio.to_thread(recorded_stacks, config) == []
    assert await asyncio.to_thread(exported_state, config, "nothing") is None
    assert not await asyncio.to_thread(place_stack, config, "nothing")
    with pytest.raises(NoDiff, match=r"there is no stack .* in LESSOR_STACK_BACKEND"):
        await preview_beside(config, small())
    server.stop()
    for question in (recorded_stacks, lambda config: exported_state(config, "nothing")):
        with pytest.raises(EngineError, match=r"cannot be (listed|read)"):
            await asyncio.to_thread(question, config)
    server.start()
    assert await asyncio.to_thread(recorded_stacks, config) == []


def test_a_program_that_is_none_and_an_answer_that_is_none_are_named(tmp_path: Path) -> None:
    config = EngineConfig(data=tmp_path, kubeconfig=tmp_path, pulumi=tmp_path / "none", backend="s3://x")
    with pytest.raises(EngineError, match="cannot be run: No such file"):
        exported_state(config, "a")
    for text in ("", "[]", '{"other": 1}'):
        program = tmp_path / "pulumi"
        program.write_text(f"#!/bin/sh\necho '{text}'\n")
        program.chmod(0o755)
        with pytest.raises(EngineError, match="a state that is none"):
            exported_state(config.model_copy(update={"pulumi": program}), "a")


@pytest.mark.devnet
@pytest.mark.long
async def test_each_question_about_a_stack_is_answered_on_any_machine_and_changes_nothing(
    config: EngineConfig, devnet_cluster: object, capfd: pytest.CaptureFixture[str]
) -> None:
    config = config.model_copy(update={"kubeconfig": devnet_cluster.kubeconfig})  # type: ignore[attr-defined]
    spec = small()
    engine = PulumiEngine(config)
    made = await engine.up(spec)
    assert made.ok, made.error
    before = await asyncio.to_thread(exported_state, config, spec.namespace)
    elsewhere = another_machine(config)

    trial = await preview_beside(elsewhere, small("nginx:2", lease=spec.lease))
    assert trial.result.ok, trial.result.error
    changed = [(change.op, change.type) for change in trial.result.changes]
    assert changed == [("update", "kubernetes:apps/v1:Deployment")], "no other provider, and nothing else"
    same = await preview_beside(elsewhere, spec)
    assert same.result.ok and not same.result.changes

    assert await asyncio.to_thread(recorded_stacks, elsewhere) == [spec.namespace]
    kinds = {obj["kind"] for obj in await asyncio.to_thread(recorded_objects, elsewhere, spec.namespace)}
    assert {"Namespace", "Deployment", "Service"} <= kinds

    elsewhere.data.mkdir(exist_ok=True)
    assert await asyncio.to_thread(place_stack, elsewhere, spec.namespace)
    capfd.readouterr()
    assert run_stock(elsewhere, spec.namespace, ["stack", "export", "--show-secrets"]) == 0
    shown = capfd.readouterr().out
    assert json.loads(shown)["deployment"]["resources"] and CANARY in shown, "the shared key decrypts here too"

    assert await asyncio.to_thread(exported_state, config, spec.namespace) == before
    assert (await engine.destroy(spec.namespace)).ok
    assert await asyncio.to_thread(recorded_stacks, elsewhere) == []
    await engine.close()
