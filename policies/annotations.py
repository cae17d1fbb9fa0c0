"""Annotations: the keys that a lease's objects may have, each with a pattern for its value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from policies.pods import at, pod_metadata
from policies.rules import Check, Manifest, ObjectProblem, Objects, Rule, RuleScope, fence, of_each

__all__ = ["RULES", "known_annotations"]

_NUMBER = r"[0-9]{1,10}"
_SECONDS = r"[0-9]{1,10}s?"
_SIZE = r"[0-9]{1,10}[kKmM]?"
_CASES = r"(off|(error|timeout|http_[0-9]{3})( (error|timeout|http_[0-9]{3})){0,9})?"
_KEY = r"[ -~]{1,512}"
_OPTIONS = {
    "client-max-body-size": _SIZE,
    "proxy-body-size": _SIZE,
    "proxy-buffer-size": _SIZE,
    "proxy-next-upstream": _CASES,
    "proxy-next-upstream-timeout": _SECONDS,
    "proxy-next-upstream-tries": _NUMBER,
    "proxy-read-timeout": _SECONDS,
    "proxy-send-timeout": _SECONDS,
}
_EDGES = ("nginx.ingress.kubernetes.io/", "nginx.org/")
_KNOWN = {
    **{f"{edge}{name}": pattern for edge in _EDGES for name, pattern in _OPTIONS.items()},
    "akash.network/sharing-key": _KEY,
    "metallb.universe.tf/allow-shared-ip": _KEY,
    "metallb.io/address-pool": r"ip-[0-9a-v]{45}",
    "metallb.universe.tf/address-pool": r"ip-[0-9a-v]{45}",
    "pulumi.com/patchFieldManager": r"[a-z-]{1,63}",
    "pulumi.com/patchForce": r"true|false",
    "pulumi.com/skipAwait": r"true|false",
}


def _edge_options(manifest: Manifest) -> Iterator[str]:
    for key, value in at(manifest, "metadata", "annotations").items():
        text = str(key)
        prefix = next((edge for edge in _EDGES if text.startswith(edge)), "")
        pattern = _OPTIONS.get(text.removeprefix(prefix)) if prefix else None
        if "snippet" in text or (prefix and pattern is None):
            yield f"annotation {text} becomes configuration of the shared edge"
        elif pattern is not None and not re.fullmatch(pattern, str(value)):
            yield f"annotation {text} has the value {str(value)[:80]!r}"


def _known(more: Mapping[str, str]) -> Check:
    patterns = {key: re.compile(pattern) for key, pattern in (_KNOWN | dict(more)).items()}

    def check(objects: Objects) -> Iterator[ObjectProblem]:
        for manifest in objects if objects.lease_namespaces else ():
            if objects.is_kept(manifest):
                continue
            for meta in (at(manifest, "metadata"), pod_metadata(manifest)):
                for key, value in at(meta, "annotations").items():
                    if objects.lease is not None and objects.lease.takes(str(key), str(value)):
                        continue
                    found = patterns.get(str(key))
                    if found is None:
                        yield ObjectProblem(manifest, f"annotation {str(key)[:200]} is not one of a lease")
                    elif not found.fullmatch(str(value)):
                        yield ObjectProblem(manifest, f"annotation {key} has the value {str(value)[:80]!r}")

    return check


def known_annotations(more: Mapping[str, str]) -> Rule:
    """The rule `known-annotations` with keys and patterns of the operator beside the known ones."""
    return fence(
        "known-annotations",
        _known(more),
        reason="Controllers of the cluster act on annotations: edges, meshes, autoscalers, networks.",
        remedy="Remove the annotation, or allow the key with a pattern for its value (annotations.allow).",
        scope=RuleScope.STACK,
    )


RULES = (
    fence(
        "known-edge-options",
        of_each(_edge_options, "Ingress", "HTTPRoute"),
        reason="Annotations of an Ingress become configuration of an edge that all tenants share.",
        remedy="Use the options of the manifest and a hostname.",
    ),
    known_annotations({}),
)
