"""What the demo prints at its end."""

from __future__ import annotations

from devnet.demo.story import real_node_hint


def test_the_last_line_of_a_demo_without_containers_names_the_demo_that_runs_them() -> None:
    assert real_node_hint(()).endswith("`make demo NODE=real` runs their containers on a real node")


def test_the_last_line_of_a_demo_says_what_a_machine_lacks_for_a_real_node() -> None:
    said = real_node_hint(("root is needed", "Debian packages are missing: ipset"))
    assert "NODE=real" in said
    assert said.endswith("not on this machine yet: root is needed; Debian packages are missing: ipset")
