"""Differences between this gateway's answers and the recorded Go provider's, with reasons. Rows for
docs/differences.md.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIFFERENCES", "NOT_REPLAYED", "Difference"]


@dataclass(frozen=True)
class Difference:
    """`names`: records of `file` it covers. `status` is this gateway's, and so is `body` where it differs."""

    file: str
    names: tuple[str, ...]
    status: int
    reason: str
    body: str | None = None


_NOT_FOUND = "rpc error: code = NotFound desc = Deployment not found: key not found\n"

DIFFERENCES = (
    Difference(
        "manifest",
        ("unknown deployment", "deployment of another tenant"),
        404,
        "A deployment that is not there is the caller's mistake: 404 with the same text, where Go says 500.",
    ),
    Difference(
        "notfound",
        ("dseq zero in PUT",),
        404,
        "As for an unknown deployment: 404 with the same text, where Go says 500.",
    ),
    Difference(
        "manifest",
        ("cpu missing", "resources missing"),
        422,
        "A manifest without resources is the tenant's mistake: 422 with the same text, where Go says 500.",
    ),
    Difference(
        "manifest",
        (
            "hostname blocked blocked.example.net",
            "hostname blocked a.blocked.example.org",
            "hostname in use by another owner",
        ),
        422,
        "A hostname that is not allowed: 422 with the same text; Go's 500 is marked a defect (gateway.md §12 f).",
    ),
    Difference(
        "manifest",
        ("two groups in manifest, one on chain", "unknown group name"),
        422,
        "Groups that are not the deployment's: 422 with the same text; Go's 500 is marked a defect (gateway.md §12 f).",
    ),
    Difference(
        "auth",
        ("crit header",),
        401,
        "Critical header extensions nobody here understands: refused, as RFC 7515 §4.1.11 demands; Go ignores them.",
        body='{"message":"JWT is invalid"}',
    ),
    Difference(
        "auth",
        ("claims: not yet valid",),
        401,
        "A token that begins later names both times, so that a tenant sees which clock is wrong; Go says 400 only.",
        body='{"message":"JWT is not valid before 2026-11-27T23:09:55Z; '
        "this provider's clock shows 2026-11-27T22:59:55Z\"}",
    ),
)

NOT_REPLAYED = {
    "client certificate": "Client certificates come with the gateway issue; today none is asked for.",
    "plain HTTP request on the REST port": (
        "A TLS listener of Python's asyncio closes the connection; Go answers 400 in clear text."
    ),
    "own fields of /version": (
        "name, version, go, build_deps, cosmos_sdk_version are this provider's, not Go's; the keys are the same."
    ),
    "header Server": "Sent as `lessor`; Go sends none, and the HTTP library would name itself.",
    "uris of a service status": (
        "Hostnames of that service only; Go lists every hostname of the lease (marked a defect, gateway.md §3.7). "
        "The recorded leases have one HTTP service each, so no record shows it."
    ),
    "streams and migrations": "Judged up to credentials, path and scope; then 501 until the gateway issue.",
    "limits": (
        "Manifest 2 MiB (413), header line 64 KiB (431), 128 headers (400), body 30 s (408), idle 75 s; Go: none."
    ),
    "order of storage classes in /status": "Sorted by name; Go's order changes from call to call.",
}
"""Records that cannot be compared, with the reason."""
