"""The policy pack by the stock command line (`pulumi preview --policy-pack`) over a stack of each valid SDL."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from devnet.tools import Toolbox
from lease.spec import LeaseSpec
from policies.judge import RULES
from tests.components.specs import fenced
from tests.policies.corpus import corpus_leases

ROOT = Path(__file__).resolve().parents[2]
PARTS = 8
"""The corpus is judged in so many tests, because each stack takes some seconds."""

pytestmark = [pytest.mark.devnet, pytest.mark.long]

Preview = Callable[[LeaseSpec, bool], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def preview(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preview]:
    """`pulumi preview` of a lease's stack, with the pack or without. No cluster is asked: none answers."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "backend").mkdir()
    for name in ("tests", "components", "lease", "policies", "stacks", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    project = {
        "name": "lease",
        "runtime": {"name": "python", "options": {"virtualenv": ".venv"}},
        "main": "tests/policies/corpus_stack/",
    }
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    (folder / "kubeconfig").write_text(json.dumps(nowhere()))
    env = {
        **os.environ,
        **toolbox.env(),
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "for-this-test-only",
        "CORPUS_SPEC": str(folder / "spec.json"),
        "CORPUS_KUBECONFIG": str(folder / "kubeconfig"),
    }

    def pulumi(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(toolbox.program("pulumi")),
            "-C",
            str(folder),
            "--non-interactive",
            "--color",
            "never",
            *arguments,
        ]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)

    def preview(spec: LeaseSpec, with_pack: bool) -> subprocess.CompletedProcess[str]:
        (folder / "spec.json").write_text(spec.model_dump_json())
        pack = ["--policy-pack", str(ROOT / "policies")] if with_pack else []
        return pulumi("preview", "-s", "t", *pack)

    assert pulumi("stack", "init", "t").returncode == 0
    yield preview


def nowhere() -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_no_stack_of_the_corpus_breaks_a_rule(part: int, preview: Preview) -> None:
    refused = {}
    for name, spec in list(corpus_leases().items())[part::PARTS]:
        done = preview(spec, True)
        if done.returncode or "Policies:" not in done.stdout or broken(done.stdout):
            refused[name] = done.stdout + done.stderr
    assert refused == {}


def broken(output: str) -> Sequence[str]:
    """The mandatory rules that the command line names as broken."""
    ids = {rule.id for rule in RULES}
    return [line for line in output.splitlines() if "[mandatory]" in line and any(one in line for one in ids)]


def test_a_forbidden_stack_is_refused_by_the_command_line(preview: Preview) -> None:
    bad = fenced()
    service = bad.services[0].model_copy(update={"image": "x"})
    allowed = preview(bad.model_copy(update={"services": (service,)}), True)
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    open_ = preview(
        bad.model_copy(update={"cluster": bad.cluster.model_copy(update={"network_policies": False})}), True
    )
    assert open_.returncode != 0 and broken(open_.stdout), open_.stdout
