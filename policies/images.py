"""The rule about images that an operator does not run; it is made from the operator's patterns.

It is in no fixed list of rules: workers judge with those, and what ran before a pattern was set goes on running and is
repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

from policies.pods import all_containers, named
from policies.rules import Level, Manifest, Rule, Severity, of_each

__all__ = ["denied_images", "image_names"]

_HUB = "docker.io"
_ALIASES = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})


def denied_images(patterns: Sequence[str]) -> Rule:
    """A rule against images of which a name matches one of `patterns`: `*` is any text, `?` one character, and upper
    and lower case are the same.
    """
    matchers = [(pattern, re.compile(translate(pattern.strip().lower()))) for pattern in patterns]

    def check(manifest: Manifest) -> Iterator[str]:
        for container in all_containers(manifest):
            image = container.get("image")
            names = image_names(image) if isinstance(image, str) else ()
            if any(matcher.match(name) for _, matcher in matchers for name in names):
                yield f"{named(container)} has an image that this provider does not run: {str(image)[:200]}"

    return Rule(
        id="denied-image",
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        reason="The operator does not run this image (LESSOR_IMAGES_DENIED).",
        remedy="Use another image or another provider.",
        check=of_each(check),
    )


def image_names(image: str) -> tuple[str, ...]:
    """Every name by which an image may be meant, in lower case: as written, with its registry, without the default
    registry, each also without tag and digest.
    """
    written = image.strip().lower()
    name, tag = _split(written)
    registry, path = _registry(name)
    forms = {name, f"{registry}/{path}"}
    if registry == _HUB:
        short = path.removeprefix("library/")
        forms |= {path, short, f"{_HUB}/{short}"}
    tagged = {f"{form}{tag or ':latest'}" for form in forms}
    return tuple(sorted({written, *forms, *tagged}))


def _split(image: str) -> tuple[str, str]:
    """The name, and the tag or digest with its mark; the colon of a registry's port is none."""
    name, at, digest = image.partition("@")
    last = name.rpartition("/")[2]
    if ":" in last:
        tag = last.partition(":")[2]
        return name[: -len(tag) - 1], f":{tag}{at}{digest}"
    return name, f"{at}{digest}"


def _registry(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = (_HUB if first in _ALIASES else first), rest
    else:
        registry, path = _HUB, name
    if registry == _HUB and "/" not in path:
        path = f"library/{path}"
    return registry, path
