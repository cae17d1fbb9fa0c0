"""The same SDL in other words: keys in another order, other quotes, comments, blanks, flow for block, anchors for
repetition. Texts, types and the order of lists stay.
"""

from __future__ import annotations

import json
import random
import re

from yaml.nodes import MappingNode, Node, ScalarNode

from lease.sdl.document import compose

__all__ = ["rewritten"]


def rewritten(text: str | bytes, seed: int) -> str:
    """Another document of the same meaning; the same one for the same seed."""
    root = compose(text, file="")
    assert root is not None
    return _Writer(random.Random(seed)).document(root)


_PLAIN = re.compile(r"<<|~|[A-Za-z0-9_.+-]*")
"""Everything with a type of its own is written so; other plain scalars are texts, and quotes change nothing."""


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.anchors: dict[str, str] = {}

    def document(self, root: Node) -> str:
        head = self.chance.choice(["", "# a comment\n", "---\n", "%YAML 1.1\n---\n", "\ufeff"])
        return head + self.block(root, 0) + self.chance.choice(["", "# the end", "...\n", "---\nother: [\n"])

    def block(self, node: Node, depth: int) -> str:
        """A mapping in block style, line by line; everything else as `flow`."""
        lines: list[str] = []
        members = list(node.value)
        self.chance.shuffle(members)
        for key, value in members:
            lines.append(self.noise(depth))
            name = f"{' ' * depth}{self.scalar(key)}:{self.chance.choice(['', ' '])}"
            if isinstance(value, MappingNode) and value.value and self.chance.random() < 0.5:
                lines.append(f"{name}\n{self.block(value, depth + self.chance.randint(1, 4))}")
            else:
                lines.append(f"{name} {self.flow(value)}{self.chance.choice(['', '  # why', ' '])}\n")
        return "".join(lines)

    def noise(self, depth: int) -> str:
        return self.chance.choice(["", "", "", "\n", f"{' ' * depth}# noise: [\n", "# {\n"])

    def flow(self, node: Node) -> str:
        if isinstance(node, ScalarNode):
            return self.scalar(node)
        plain = self.collection(node, writer=None)
        if plain in self.anchors and self.chance.random() < 0.7:
            return f"*{self.anchors[plain]} "
        name = f"n{self.chance.randrange(10**9)}"
        anchored = self.chance.random() < 0.4
        text = self.collection(node, writer=self)
        if anchored:
            self.anchors[plain] = name  # only now: what is inside cannot refer to it
            return f"&{name} {text}"
        return text

    def collection(self, node: Node, writer: _Writer | None) -> str:
        """In flow style; without a writer always alike, to find what is repeated."""
        inner = writer.flow if writer else self.canonical
        gap = self.chance.choice([" ", "", "\n        "]) if writer else ""
        if isinstance(node, MappingNode):
            members = list(node.value)
            if writer:
                self.chance.shuffle(members)
            pairs = (f"{self.scalar(key) if writer else key.value}: {inner(value)}" for key, value in members)
            return "{" + f",{gap}".join(pairs) + "}"
        return "[" + f",{gap}".join(map(inner, node.value)) + "]"

    def canonical(self, node: Node) -> str:
        if isinstance(node, ScalarNode):
            return json.dumps([node.value, node.style in ("", None), node.tag])
        return self.collection(node, writer=None)

    def scalar(self, node: Node) -> str:
        """Plain stays plain where the text allows it, for its type may matter; text changes its quotes."""
        if node.tag:
            return f"{_tag(node.tag)} {_double_quoted(node.value)}"
        if not node.style and _PLAIN.fullmatch(node.value):  # type: ignore[attr-defined]
            return str(node.value) or "~"
        if node.value.isascii() and node.value.isprintable() and self.chance.random() < 0.5:
            return "'" + node.value.replace("'", "''") + "'"
        return _double_quoted(node.value)


def _tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!") if tag.startswith("tag:yaml.org,2002:") else f"!<{tag}>"


def _double_quoted(text: str) -> str:
    """Some escaped that need not be."""
    parts = (char if char.isalnum() or char in " -_./" else f"\\U{ord(char):08x}" for char in text)
    return '"' + "".join(parts) + '"'
