"""The policy pack by the stock command line (`pulumi preview --policy-pack`) over the leases of all valid SDLs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from components.lease import lease_objects
from devnet.tools import Toolbox
from lease.spec import IngressMode, LeaseSpec
from policies.judge import RULES
from tests.components.specs import fenced
from tests.policies.corpus import corpus_leases

ROOT = Path(__file__).resolve().parents[2]
PARTS = 12
"""The corpus is judged in so many previews of each mode, since the start of each takes three seconds of CPU."""

pytestmark = [pytest.mark.devnet, pytest.mark.long, pytest.mark.timeout(900)]

Preview = Callable[[Sequence[LeaseSpec]], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def preview(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preview]:
    """`pulumi preview --policy-pack` of leases in one stack. No cluster is asked: none answers."""
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
        "CORPUS_SPECS": str(folder / "specs.json"),
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
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=800, check=False)

    def preview(specs: Sequence[LeaseSpec]) -> subprocess.CompletedProcess[str]:
        (folder / "specs.json").write_bytes(TypeAdapter(list[LeaseSpec]).dump_json(list(specs)))
        return pulumi("preview", "-s", "t", "--policy-pack", str(ROOT / "policies"))

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


@pytest.mark.parametrize("mode", list(IngressMode))
@pytest.mark.parametrize("part", range(PARTS))
def test_no_lease_of_the_corpus_breaks_a_rule(part: int, mode: IngressMode, preview: Preview) -> None:
    leases = dict(list(corpus_leases(mode).items())[part::PARTS])
    done = preview(list(leases.values()))
    assert done.returncode == 0 and "Policies:" in done.stdout and not broken(done.stdout), done.stdout + done.stderr
    assert registered(done.stdout) == sum(len(lease_objects(spec)) for spec in leases.values())


def broken(output: str) -> Sequence[str]:
    """The mandatory rules that the command line names as broken."""
    ids = {rule.id for rule in RULES}
    return [line for line in output.splitlines() if "[mandatory]" in line and any(one in line for one in ids)]


def registered(output: str) -> int:
    """How many Kubernetes objects the command line would create."""
    return sum(" kubernetes:" in line and " create" in line for line in output.splitlines())


def with_image(spec: LeaseSpec, image: str) -> LeaseSpec:
    return spec.model_copy(update={"services": (spec.services[0].model_copy(update={"image": image}),)})


def without_policies(spec: LeaseSpec) -> LeaseSpec:
    return spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"network_policies": False})})


def test_a_forbidden_lease_among_others_is_refused_by_the_command_line(preview: Preview) -> None:
    first = with_image(fenced(), "x")
    second = first.model_copy(update={"lease": replace(first.lease, dseq=2)})
    allowed = preview([first, second])
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    refused = preview([first, without_policies(second)])
    assert refused.returncode != 0 and broken(refused.stdout), refused.stdout
    assert second.namespace in refused.stdout.partition("Policies:")[2]
    assert first.namespace not in refused.stdout.partition("Policies:")[2]
