"""Settings files that no operator wrote: each is one problem in the list, costs little, and shows no secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from provider.settings.files import Item, read_file

_DOUBLED = "{0}: &{0} [*{1}, *{1}]\n"
BOMB = "a: &a [x, x]\n" + "".join(_DOUBLED.format(chr(98 + n), chr(97 + n)) for n in range(20))


def problems(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return "; ".join(read_file(path).problems)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.yaml", BOMB, "alias"),
        ("a.yaml", "a: [" * 1000, "deeper than 16 levels"),
        ("a.yaml", "- a\n- b\n", "must be a mapping"),
        ("a.yaml", "just text", "must be a mapping"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "more than one document"),
        ("a.yaml", "a: 1\na: 2\n", "a stands twice (line 2)"),
        ("a.yaml", "m:\n  b: 1\n  b: 2\n", "m.b stands twice (line 3)"),
        ("a.yaml", "? [a, b]\n: 1\n", "a key must be a text"),
        ("a.yaml", "a: [[1]]\n", "a must be a text, a number, true or false, or a list of them"),
        ("a.yaml", "a: !!python/object/apply:os.system ['true']\nb: {", "no YAML"),
        ("a.yaml", "a: b\0c\n", "NUL"),
        ("a.yaml", b"a: \xff\xfe\n", "not UTF-8 at byte 3"),
        ("a.yaml", "a: b\n" * 60_000, "larger than 256 KiB"),
        ("a.yaml", "".join(f"k{n}: 1\n" for n in range(11_000)), "more than 20000 values"),
        ("a.toml", "a = 1\na = 2\n", "a"),
        ("a.toml", "a = [[1]]\n", "a must be a text"),
        ("a.toml", "a = 1979-05-27\n", "a must be a text"),
        ("a.toml", "a = " + "[" * 5000, ""),
        ("a.toml", "x." * 500 + "y = 1\n", "deeper than 16 levels"),
        ("a.toml", "a = 'b\0c'\n", "NUL"),
        ("a.toml", b"a = '\xff'\n", "not UTF-8"),
    ],
)
def test_a_hostile_file_is_a_problem_with_words(tmp_path: Path, name: str, content: bytes | str, words: str) -> None:
    found = problems(tmp_path / name, content)
    assert found and words in found


def test_nothing_of_a_file_that_multiplies_itself_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[str] = []
    compose_all = yaml.compose_all

    def counted(text: str, Loader: type) -> object:
        composed.append(text)
        return compose_all(text, Loader=Loader)

    monkeypatch.setattr(yaml, "compose_all", counted)
    assert problems(tmp_path / "a.yaml", BOMB) and not composed
    assert not problems(tmp_path / "a.yaml", "a: 1") and composed


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "b.yaml")
    (tmp_path / "c.yaml").symlink_to("/dev/zero")
    (tmp_path / "d.yaml").mkdir()
    for name in "abcd":
        assert len(read_file(tmp_path / f"{name}.yaml").problems) == 1
    assert read_file(tmp_path / "gone.yaml").problems == ["it cannot be read: No such file or directory"]


def test_a_link_is_followed_as_a_mounted_config_map_needs_it(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a: 1\n")
    (tmp_path / "a.yaml").symlink_to(tmp_path / "real")
    assert read_file(tmp_path / "a.yaml").items == [Item("a", "1", " (line 1)")]


def test_values_keep_their_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 0.00016\nb: true\nc: 010\nd:\ne: [x, 1.0]\nf: ~\ng: 1e-3\n")
    items = read_file(tmp_path / "a.yaml").items
    assert {item.key: item.value for item in items} == {
        "a": "0.00016",
        "b": "true",
        "c": "010",
        "d": "",
        "e": "x,1.0",
        "f": "",
        "g": "1e-3",
    }
    (tmp_path / "a.toml").write_text("a = 0.00016\nb = true\nc = ['x', 2]\n[d.e]\nf = 'g'\n")
    items = read_file(tmp_path / "a.toml").items
    assert {item.key: item.value for item in items} == {"a": "0.00016", "b": "true", "c": "x,2", "d.e.f": "g"}
