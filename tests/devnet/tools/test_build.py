"""Builds run once, are checked, and are never left half finished, also after kills and with concurrent builders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.children import alive
from devnet.errors import BuildFailed, CacheUnusable, GoMissing
from devnet.tools.recipes import CopyFromCheckout, CopyFromModule, GoBuild, Link, Recipe
from tests.devnet.tools.family import GO_MOD, RECIPE, builder, fake_go, family, first_on_path
from tests.world.patience import until
from tests.world.processes import start_process

BUILD_IT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.devnet.tools.family import GO_MOD, RECIPE, builder
builder(Path(sys.argv[1]), root=Path(sys.argv[1]) / "tools")[0].ensure(RECIPE)
"""

CALLER = """package main

import (
	"os"

	"lessor.example/lego/providers/dns"
)

func main() { os.Stdout.WriteString(dns.Name()) }
"""


@pytest.fixture
def told(tmp_path, monkeypatch) -> Path:
    """Where the stand-in for `go` notes its builds; it comes first on PATH."""
    first_on_path(monkeypatch, tmp_path / "bin")
    fake_go(tmp_path / "bin", told=tmp_path / "told")
    return tmp_path / "told"


def builds(told: Path) -> list[int]:
    return [int(line) for line in told.read_text().split()] if told.exists() else []


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go on PATH")
def test_a_family_builds_with_a_stand_in_for_a_module_deep_in_its_folder(tmp_path):
    root = family(tmp_path / "tools")
    hello, stand_in = root / "hello", root / "hello" / "lego" / "providers" / "dns"
    stand_in.mkdir(parents=True)
    (root / "hello" / "lego" / "go.mod").write_text("module lessor.example/lego\n\ngo 1.26\n")
    (stand_in / "dns.go").write_text('package dns\n\nfunc Name() string { return "hello 1.2.3" }\n')
    (hello / "go.mod").write_text(
        f"{GO_MOD}\nreplace lessor.example/lego => ./lego\n\nrequire lessor.example/lego v0.0.0\n"
    )
    (hello / "main.go").write_text(CALLER)
    done = builder(tmp_path, root=root)[0].ensure(RECIPE)
    assert (done / "bin" / "hello").is_file()


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go on PATH")
def test_a_real_family_is_built_with_its_linker_values_and_the_checkout_stays_clean(tmp_path):
    root = family(tmp_path / "tools")
    before = sorted((root / "hello").iterdir())
    done = builder(tmp_path, root=root)[0].ensure(RECIPE)
    answer = subprocess.run([done / "bin" / "hello"], capture_output=True, text=True, check=True)
    assert answer.stdout == "hello 1.2.3\n"
    assert sorted((root / "hello").iterdir()) == before


def test_a_finished_build_is_not_repeated(tmp_path, told):
    made, _ = builder(tmp_path)
    assert made.ensure(RECIPE) == made.ensure(RECIPE)
    assert len(builds(told)) == 1


def test_modules_of_later_recipes_are_downloaded_while_the_first_is_compiled(tmp_path, told):
    listed = tmp_path / "listed"
    fake_go(tmp_path / "bin", told=told, then=f"for _ in 1 2 3 4 5 6 7 8 9; do test -e '{listed}' || sleep 0.3; done")
    go = tmp_path / "bin" / "go"
    go.write_text(go.read_text().replace("env)", f"list) echo $* >>'{listed}';;\nenv)"))
    made, _ = builder(tmp_path)
    later = replace(RECIPE, name="later", steps=(GoBuild("./later", "hello", tags="one,two"),))
    made.ensure_all([RECIPE, later])
    assert listed.read_text() == "list -e -mod=readonly -tags one,two -deps ./later\n"
    assert len(builds(told)) == 2


def test_a_hanging_download_delays_no_build(tmp_path, told):
    go = tmp_path / "bin" / "go"
    go.write_text(go.read_text().replace("env)", "list) exec sleep 3600;;\nenv)"))
    made, _ = builder(tmp_path)
    made.ensure_all([RECIPE, replace(RECIPE, name="later")])
    assert len(builds(told)) == 2


def test_a_changed_source_gets_a_second_build(tmp_path, told):
    made, _ = builder(tmp_path)
    old = made.ensure(RECIPE)
    (tmp_path / "tools" / "hello" / "main.go").write_text("package main // other")
    new = made.ensure(RECIPE)
    assert old != new
    assert old.is_dir()
    assert len(builds(told)) == 2


def test_of_two_concurrent_builders_one_builds_and_the_other_reports_that_it_waits(tmp_path, told):
    fake_go(tmp_path / "bin", told=told, then="sleep 0.5")
    family(tmp_path / "tools")
    pairs = [builder(tmp_path, root=tmp_path / "tools") for _ in range(2)]
    threads = [threading.Thread(target=made.ensure, args=(RECIPE,)) for made, _ in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds(told)) == 1
    assert sum("waiting for another process" in line for _, lines in pairs for line in lines) == 1


def test_a_killed_build_leaves_no_finished_folder_and_no_compiler(tmp_path, told):
    fake_go(tmp_path / "bin", told=told, then="exec sleep 60")
    made, _ = builder(tmp_path)
    argv = [sys.executable, "-c", BUILD_IT, str(tmp_path), str(Path(__file__).parents[3])]
    process = start_process(argv)
    until(lambda: bool(builds(told)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not made.folder(RECIPE).exists()
    [compiler] = builds(told)
    until(lambda: not alive(compiler))

    fake_go(tmp_path / "bin", told=told)
    done = made.ensure(RECIPE)
    assert (
        subprocess.run([done / "bin" / "hello"], capture_output=True, text=True, check=True).stdout == "hello 1.2.3\n"
    )
    assert [path.name for path in made.cache.entry("").iterdir()] == [done.name], "the partial folder is gone"


def test_a_failed_build_shows_the_end_of_its_log_and_a_remedy(tmp_path, told):
    fake_go(tmp_path / "bin", told=told, then="exit 3")
    made, _ = builder(tmp_path)
    with pytest.raises(BuildFailed) as failed:
        made.ensure(RECIPE)
    text = str(failed.value)
    assert "building hello failed: `go build` ended with 3" in text
    assert "    compiling and then: a last line" in text
    assert str(failed.value.log) in text
    assert "make tools" in text
    assert not made.folder(RECIPE).exists()


@pytest.mark.parametrize(
    ("says", "problem"),
    [("etcd Version: 3.5.9", "etcd reports version 3.5.9"), ("what?", "etcd reports version nothing")],
)
def test_a_built_tool_with_a_wrong_version_is_not_kept(tmp_path, told, says, problem):
    fake_go(tmp_path / "bin", told=told, says=says)
    made, _ = builder(tmp_path)
    recipe = Recipe("etcd", "hello", (GoBuild(".", "etcd"),), 1)
    with pytest.raises(BuildFailed, match=problem):
        made.ensure(recipe)
    assert not made.folder(recipe).exists()


def test_the_version_of_a_built_tool_is_stored(tmp_path, told):
    fake_go(tmp_path / "bin", told=told, says="etcd Version: 3.6.16")
    made, _ = builder(tmp_path)
    recipe = Recipe("etcd", "hello", (GoBuild(".", "etcd"),), 1)
    assert made.versions(recipe) == {}
    made.ensure(recipe)
    assert made.versions(recipe) == {"etcd": "3.6.16"}


def test_links_and_copies_are_in_the_folder_of_the_build(tmp_path, told):
    made, _ = builder(tmp_path)
    (tmp_path / "tools" / "host").write_text("#!/bin/sh\n")
    steps = (*RECIPE.steps, Link("hello", ("hi", "salut")), CopyFromCheckout("host", "bin/host"))
    done = made.ensure(replace(RECIPE, steps=steps))
    assert sorted(path.name for path in (done / "bin").iterdir()) == ["hello", "hi", "host", "salut"]
    assert (done / "bin" / "hi").readlink() == Path("hello")
    assert os.access(done / "bin" / "host", os.X_OK)


def test_a_throw_away_go_cache_is_deleted_after_a_build_and_kept_after_a_failed_one(tmp_path, told):
    note = 'mkdir -p "$GOCACHE"; touch "$GOCACHE/compiled"'
    fake_go(tmp_path / "bin", told=told, then=f"{note}; exit 1")
    made, _ = builder(tmp_path, throw_away=True)
    with pytest.raises(BuildFailed):
        made.ensure(RECIPE)
    assert list(made.cache.root.glob("go-build/*/compiled")), "the next build goes on from there"
    fake_go(tmp_path / "bin", told=told, then=note)
    made.ensure(RECIPE)
    assert not list(made.cache.root.glob("go-build/*"))


@pytest.mark.parametrize(("version", "found"), [("1.25.9", "1.25.9"), ("nonsense", "none")])
def test_a_go_that_is_too_old_is_named_with_the_remedy(tmp_path, told, version, found):
    fake_go(tmp_path / "bin", told=told, version=version)
    with pytest.raises(GoMissing, match=rf"needs Go 1\.26\.0 or newer; found: {found}\. Install Go"):
        builder(tmp_path)[0].ensure(RECIPE)
    assert builds(told) == []


def test_a_missing_go_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(GoMissing, match="found: none"):
        builder(tmp_path)[0].ensure(RECIPE)


@pytest.mark.parametrize("damage", ["removed", "emptied", "no versions", "broken versions"])
def test_a_damaged_entry_of_the_cache_is_built_again(tmp_path, told, damage):
    made, _ = builder(tmp_path)
    done = made.ensure(RECIPE)
    match damage:
        case "removed":
            (done / "bin" / "hello").unlink()
        case "emptied":
            (done / "bin" / "hello").write_bytes(b"")
        case "no versions":
            (done / "versions.json").unlink()
        case _:
            (done / "versions.json").write_bytes(b"")
    assert not made.complete(RECIPE)
    made.versions(RECIPE)
    made.ensure_all([RECIPE])
    assert made.complete(RECIPE)
    assert len(builds(told)) == 2


def test_temporary_files_of_a_killed_compiler_are_removed_by_the_next_build(tmp_path, told):
    fake_go(tmp_path / "bin", told=told, then='echo much >"$GOTMPDIR/go-build1"; chmod 500 "$GOTMPDIR"; exec sleep 60')
    made, _ = builder(tmp_path)
    process = start_process([sys.executable, "-c", BUILD_IT, str(tmp_path), str(Path(__file__).parents[3])])
    until(lambda: any(tmp_path.rglob("go-build1")))
    process.kill()
    process.wait()
    fake_go(tmp_path / "bin", told=told)
    made.ensure(RECIPE)
    assert not any(tmp_path.rglob("go-build1"))
    assert not any((made.folder(RECIPE)).glob("tmp"))


@pytest.mark.parametrize("place", ["locks", "logs", "tools"])
def test_a_cache_that_cannot_be_written_is_named_with_its_variable(tmp_path, told, place):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / place).touch()
    made, _ = builder(tmp_path)
    with pytest.raises(CacheUnusable, match=rf"{tmp_path}/cache, cannot be used: .*{place}.*LESSOR_CACHE"):
        made.ensure(RECIPE)


def test_a_full_disk_is_named_with_its_remedy(tmp_path, told):
    made, _ = builder(tmp_path)
    (tmp_path / "cache" / "logs").mkdir(parents=True)
    made.cache.log(made.key(RECIPE)).symlink_to("/dev/full")
    fake_go(tmp_path / "bin", told=told)
    chosen = replace(RECIPE, steps=(CopyFromModule("example.com/m@v1", "*", "bin"),))
    made.cache.log(made.key(chosen)).symlink_to("/dev/full")
    go = tmp_path / "bin" / "go"
    go.write_text(go.read_text().replace("env)", 'mod) echo \'{"Dir": "/"}\';;\nenv)'))
    with pytest.raises(CacheUnusable, match=r"No space left on device.*Free some space"):
        made.ensure(chosen)
    assert not made.folder(chosen).with_name(made.folder(chosen).name + ".partial").exists()
