"""`lessor diff` beside a running provider, on a lease that went the whole way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.world import ProviderProcess, World
from lease.exit_codes import FINDING, FINE, TROUBLE
from lease.ids import namespace_name
from lease.manifest_json import manifest_json
from tests.whole.conftest import MARKS, close, deploy, rent, sdl_of

pytestmark = MARKS
LESSOR = Path(sys.executable).with_name("lessor")
DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.yaml"

HEADS = ["~ Deployment web", "~ Service web", "~ Service web-np", "3 to update"]
"""What carries the label of the manifest's version, and nothing of the other service."""


async def diff(world: World, *arguments: object) -> tuple[int, str, str]:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(LESSOR), "diff", *map(str, arguments)],
        env=world.provider_env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def files_of(home: Path, stack: str) -> dict[str, tuple[int, bytes]]:
    folder = home / "engine" / "stacks" / stack
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


@pytest.mark.long  # tests/provider/cli/test_diff.py has the words, over fakes
async def test_diff_says_what_a_manifest_would_change_and_the_running_provider_does_not_notice(
    world: World, provider: ProviderProcess, tmp_path: Path
) -> None:
    sdl = sdl_of(DEMO)
    rented = await rent(world, sdl)
    await deploy(world, provider, rented)
    stack, home = namespace_name(rented.lease), world.data / "provider"
    files, events = files_of(home, stack), len(provider.events)
    (tmp_path / "same.json").write_text(manifest_json(sdl.manifest))
    (tmp_path / "next.yaml").write_text(DEMO.read_text().replace("nginx:1.27", "nginx:1.28"))

    same = await diff(world, tmp_path / "same.json", "--lease", rented.lease, "--exit-code")
    assert same == (0, "no change\n", "")
    for option in ("--exit-code", "--objects"):
        code, shown, problems = await diff(world, tmp_path / "next.yaml", "--lease", rented.lease, option)
        assert (code, problems) == (FINDING if option == "--exit-code" else FINE, "")
        told = shown.splitlines()
        assert [line for line in told if line[0] != " "] == HEADS
        before, after = (f'"docker.io/library/nginx:1.{number}"' for number in (27, 28))
        assert f"    spec.template.spec.containers[0].image: {before} -> {after}" in told

    assert files_of(home, stack) == files
    assert not [event for event in provider.events[events:] if event["event"].startswith("lease.")]
    await close(world, provider, rented)
    code, shown, problems = await diff(world, DEMO, "--lease", rented.lease)
    assert (code, shown) == (TROUBLE, "") and "is not known" in problems and problems.count("\n") == 1
