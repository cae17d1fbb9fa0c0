"""The rule about images that an operator does not run: every way to write one image is the same image."""

from __future__ import annotations

import pytest

from policies.images import denied_images, image_names
from policies.judge import RULES, judge


def deployment(*images: object) -> dict[str, object]:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    return {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


@pytest.mark.parametrize(
    ("pattern", "image", "denied"),
    [
        ("nginx", "nginx", True),
        ("nginx", "nginx:1.27", True),
        ("nginx", "docker.io/library/nginx@sha256:abc", True),
        ("nginx", "index.docker.io/library/nginx:1", True),
        ("nginx", "docker.io/nginx", True),
        ("nginx", "registry-1.docker.io:443/library/nginx", True),
        ("ghcr.io/miner/*", "ghcr.io:443/miner/xmrig:6", True),
        ("ghcr.io:443/miner/*", "ghcr.io:443/miner/xmrig:6", True),
        ("ghcr.io/miner/*", "ghcr.io:5443/miner/xmrig:6", False),
        ("nginx", "ghcr.io/nginx", False),
        ("nginx", "nginx-unprivileged", False),
        ("nginx:latest", "nginx", True),
        ("nginx:latest", "nginx:1", False),
        ("docker.io/miner/*", "miner/xmrig:6", True),
        ("docker.io/miner/*", "registry-1.docker.io/miner/xmrig", True),
        ("miner/*", "docker.io/miner/xmrig", True),
        ("*xmrig*", "GHCR.io/some/XMRig-cpu:1", True),
        ("localhost:5000/*", "localhost:5000/a/b:1", True),
        ("a.example:5000/app", "a.example:5000/app:2", True),
        ("a.example:5000/app", "a.example/app:2", False),
        ("*:latest", "nginx", True),
        ("*:latest", "nginx@sha256:abc", False),
    ],
)
def test_a_pattern_meets_an_image_however_it_is_written(pattern: str, image: str, denied: bool) -> None:
    found = judge([deployment("busybox:1", image)], [denied_images([pattern])])
    assert [violation.rule for violation in found] == (["denied-image"] if denied else [])
    assert all(violation.mandatory and "does not run" in violation.problem for violation in found)


@pytest.mark.parametrize("image", [None, 7, "", "@", ":", "/", "a//b", "*" * 5000, "a:" * 5000])
def test_an_image_of_any_form_is_judged(image: object) -> None:
    assert judge([deployment(image)], [denied_images(["*" + "a*" * 50 + "b"])]) == ()


def test_the_names_of_an_image_are_few() -> None:
    assert len(image_names("docker.io/library/" + "x/" * 2000 + "nginx:1")) <= 12


def test_workers_do_not_judge_images_so_that_what_ran_before_is_repaired() -> None:
    assert "denied-image" not in {rule.id for rule in RULES}
