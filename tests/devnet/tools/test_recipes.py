"""The key of a recipe: equal for equal builds, different after every relevant change."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.errors import NoCheckout, UnknownTool
from devnet.tools.cache import Cache, recipe_hash, sources
from devnet.tools.recipes import RECIPES, TOOLS, Adopt, GoBuild, recipe, tool
from tests.devnet.tools.family import RECIPE, family


def test_the_key_depends_on_neither_the_path_nor_the_times_of_a_recipe(tmp_path):
    here = family(tmp_path / "here")
    there = tmp_path / "elsewhere" / "tools"
    shutil.copytree(here, there)
    os.utime(there / "hello" / "go.mod", (1, 1))
    assert recipe_hash(RECIPE, here) == recipe_hash(RECIPE, there)


@pytest.mark.parametrize("generated", ["schema.json", "terraform-mapping.json", "hello", ".DS_Store"])
def test_files_that_are_not_part_of_the_recipe_do_not_change_its_key(tmp_path, generated):
    root = family(tmp_path)
    before = recipe_hash(RECIPE, root)
    (root / "hello" / generated).write_text("{}")
    assert recipe_hash(RECIPE, root) == before


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "main.go", "more.go"])
def test_every_committed_file_of_the_family_changes_the_key(tmp_path, changed):
    root = family(tmp_path)
    before = recipe_hash(RECIPE, root)
    with (root / "hello" / changed).open("a") as file:
        file.write("// another\n")
    assert recipe_hash(RECIPE, root) != before


@pytest.mark.parametrize(
    "step",
    [
        GoBuild("./other", "hello", variables=("main.greeting=hello",)),
        GoBuild(".", "other", variables=("main.greeting=hello",)),
        GoBuild(".", "hello", variables=("main.greeting=good bye",)),
        GoBuild(".", "hello", variables=("main.greeting=hello",), tags="osusergo"),
    ],
)
def test_every_flag_changes_the_key(tmp_path, step):
    root = family(tmp_path)
    assert recipe_hash(replace(RECIPE, steps=(step,)), root) != recipe_hash(RECIPE, root)


def test_the_language_host_is_part_of_the_key_of_pulumi_but_not_of_the_cli(tmp_path):
    root = tmp_path / "tools"
    shutil.copytree(sources(), root)
    keys = {name: recipe_hash(recipe(name), root) for name in ("pulumi", "pulumi-cli")}
    with (root / "langhost" / "pulumi-language-python").open("a") as file:
        file.write("# changed\n")
    assert recipe_hash(recipe("pulumi"), root) != keys["pulumi"]
    assert recipe_hash(recipe("pulumi-cli"), root) == keys["pulumi-cli"]


def test_an_adopted_recipe_is_part_of_the_key():
    assert [step.recipe for step in recipe("pulumi").steps if isinstance(step, Adopt)] == ["pulumi-cli"]
    cli = recipe_hash(recipe("pulumi-cli"), sources())
    assert len(cli) == 12
    assert len({recipe_hash(each, sources()) for each in RECIPES}) == len(RECIPES)


def test_every_tool_has_a_recipe_whose_family_is_pinned():
    for each in TOOLS:
        folder = sources() / recipe(each.recipe).family
        assert (folder / "go.mod").is_file()
        needs_modules = "require" in (folder / "go.mod").read_text()
        assert ((folder / "go.sum").stat().st_size > 0) == needs_modules


def test_an_unknown_tool_is_refused_with_the_names_of_all_tools():
    with pytest.raises(UnknownTool, match=r"there is no tool 'kubctl'; the tools are etcd, .*kubectl"):
        tool("kubctl")


def test_without_a_checkout_the_error_asks_for_one(tmp_path):
    with pytest.raises(NoCheckout, match=r"installed wheel.*need a checkout"):
        sources(tmp_path)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LESSOR_CACHE": "/one"}, Path("/one")),
        ({"LESSOR_CACHE": "/one", "XDG_CACHE_HOME": "/two"}, Path("/one")),
        ({"XDG_CACHE_HOME": "/two"}, Path("/two/lessor")),
        ({"HOME": "/three"}, Path("/three/.cache/lessor")),
    ],
)
def test_the_environment_selects_the_cache(monkeypatch, environment, expected):
    for name in ("LESSOR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Cache.default().root == expected


def test_the_resident_engine_is_built_from_the_module_versions_of_the_command_line():
    def versions(family: str) -> dict[str, str]:
        lines = (line.split() for line in (sources() / family / "go.mod").read_text().splitlines())
        return {words[0]: words[1] for words in lines if len(words) > 1 and words[1].startswith("v")}

    assert versions("engine") == versions("pulumi")
    assert (sources() / "engine" / "go.sum").read_bytes() == (sources() / "pulumi" / "go.sum").read_bytes()
