"""Errors in what a tenant sends, and in a lease that cannot be built. Each text says what is wrong, where, and what to
do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Finding",
    "GroupsInvalid",
    "LeaseError",
    "ManifestErrorKind",
    "ManifestRefused",
    "SdlInvalid",
    "SpecRefused",
]


class LeaseError(Exception):
    """Base of the errors of this package."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One error in a document. `line` and `column` count from 1; `path` is dotted (`services.web.expose[0].port`)."""

    file: str
    line: int
    column: int
    path: str
    message: str
    found: str = ""
    allowed: str = ""

    def __str__(self) -> str:
        details = [f"found {self.found}"] if self.found else []
        details += [f"allowed: {self.allowed}"] if self.allowed else []
        where = f"{self.file}:{self.line}:{self.column}: {self.path + ': ' if self.path else ''}"
        return f"{where}{self.message}{' (' + '; '.join(details) + ')' if details else ''}"


class SdlInvalid(LeaseError):
    """An SDL that cannot be deployed. `findings` is never empty; the first is the one that the Go parser would
    report.
    """

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)


class ManifestErrorKind(StrEnum):
    """The family of a refusal. The gateway answers all of them with 422; Go's 500 for PLAIN (sdl-and-manifest.md §5.6)
    is a row of docs/differences.md.
    """

    DECODE = "decode"
    INVALID = "invalid"
    VERSION = "version"
    CROSS = "cross"
    REJECTED = "rejected"
    PLAIN = "plain"


_PREFIXES = {
    ManifestErrorKind.INVALID: "invalid manifest: ",
    ManifestErrorKind.CROSS: "manifest cross-validation error: ",
    ManifestErrorKind.REJECTED: "manifest rejected: ",
}


class ManifestRefused(LeaseError):
    """A manifest that the provider does not take. `str()` is the body of the answer, without its final newline.

    `service` and `field` name the place, for callers that can point into a document: `field` is one of `name`, `image`,
    `resources`, `env`, `expose`, `port`, `proto`, `hosts`, or empty. `value` is the refused text.
    """

    def __init__(
        self, kind: ManifestErrorKind, problem: str, *, service: str = "", field: str = "", value: str = ""
    ) -> None:
        super().__init__(_PREFIXES.get(kind, "") + problem)
        self.kind = kind
        self.problem = problem
        self.service = service
        self.field = field
        self.value = value


class GroupsInvalid(LeaseError):
    """Group specs that the chain would not take (sdl-and-manifest.md §4.3). `unit` is the resource id, 0 for the whole
    group.

    `field` is one of `cpu`, `memory`, `storage`, `gpu`, `price`, `id`, `name`, or empty.
    """

    def __init__(self, problem: str, *, group: str = "", unit: int = 0, field: str = "") -> None:
        super().__init__(problem)
        self.group = group
        self.unit = unit
        self.field = field


class SpecRefused(LeaseError):
    """No `LeaseSpec` can be made from this manifest, reservation and cluster. The text names the service and
    the value.
    """
