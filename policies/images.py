"""Images: those that an operator does not run, or the only ones that an operator runs, by patterns.

These rules are no fences: what ran before a pattern was set goes on running and is repaired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate

from policies.pods import all_containers, named
from policies.rules import Domain, Level, Manifest, Rule, Severity, of_each

__all__ = ["MINERS", "RULES", "allowed_images", "denied_images", "image_names"]

_HUB = "docker.io"
_ALIASES = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
MINERS = (
    "*xmrig*",
    "*xmr-stak*",
    "*/minerd*",
    "*cpuminer*",
    "*nicehash*",
    "*/nanominer*",
    "*/lolminer*",
    "*phoenixminer*",
    "*t-rex-miner*",
    "*/gminer*",
    "*teamredminer*",
    "*/srbminer*",
    "*ethminer*",
    "*minergate*",
    "*moneroocean*",
    "*monerominer*",
    "*/kryptex*",
    "*/bzminer*",
    "*cgminer*",
    "*bfgminer*",
)
"""Known programs of miners, by the names that images of them have. `images.deny_miners` denies them."""
_MOVING = "latest"


def denied_images(patterns: Sequence[str]) -> Rule:
    """A rule against images of which a name matches one of `patterns`: `*` is any text, `?` one character, and upper
    and lower case are the same.
    """
    matches = _matcher(patterns)

    def check(manifest: Manifest) -> Iterator[str]:
        for container in all_containers(manifest):
            if matches(container.get("image")):
                yield f"{named(container)} has an image that this provider does not run: {_shown(container)}"

    return _choice("denied-image", check, "The operator does not run this image (LESSOR_IMAGES_DENIED, images.deny).")


def allowed_images(patterns: Sequence[str]) -> Rule:
    """A rule against images of which no name matches one of `patterns`."""
    matches = _matcher(patterns)

    def check(manifest: Manifest) -> Iterator[str]:
        for container in all_containers(manifest):
            if not matches(container.get("image")):
                yield f"{named(container)} has an image that this provider does not run: {_shown(container)}"

    return _choice("allowed-image", check, "The operator runs no other images (images.allow).")


def _choice(id_: str, check: Callable[[Manifest], Iterator[str]], reason: str) -> Rule:
    return Rule(
        id=id_,
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        reason=reason,
        remedy="Use another image or another provider.",
        check=of_each(check),
        fence=False,
        topic="images",
    )


def _matcher(patterns: Sequence[str]) -> Callable[[object], bool]:
    matchers = [re.compile(translate(pattern.strip().lower())) for pattern in patterns]

    def matches(image: object) -> bool:
        names = image_names(image) if isinstance(image, str) else ()
        return any(matcher.match(name) for matcher in matchers for name in names)

    return matches


def _shown(container: Manifest) -> str:
    return str(container.get("image"))[:200]


def _moving(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        image = container.get("image")
        if isinstance(image, str) and any(name.endswith(f":{_MOVING}") for name in image_names(image)):
            yield f"{named(container)} has an image of no fixed version: {_shown(container)}"


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
    first = first.removesuffix(":443")  # the default port
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = (_HUB if first in _ALIASES else first), rest
    else:
        registry, path = _HUB, name
    if registry == _HUB and "/" not in path:
        path = f"library/{path}"
    return registry, path


RULES = (
    Rule(
        id="fixed-version",
        severity=Severity.LOW,
        level=Level.ADVISORY,
        reason="An image without a version is another program after every restart.",
        remedy="Name a version or a digest.",
        check=of_each(_moving),
        domains=(Domain.CLUSTER,),
    ),
)
