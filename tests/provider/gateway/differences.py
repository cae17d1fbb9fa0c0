"""Differences between this gateway's answers and the recorded Go provider's, with reasons. Rows for
docs/differences.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from lease.go_json import go_json
from tests.provider.gateway.recorded import record

__all__ = ["DIFFERENCES", "NOT_REPLAYED", "STREAM_DIFFERENCES", "Difference"]


@dataclass(frozen=True)
class Difference:
    """`names`: records of `file` it covers. `status` is this gateway's, and so is `body` where it differs."""

    file: str
    names: tuple[str, ...]
    status: int
    reason: str
    body: str | None = None


_UNAUTHORIZED = '{"message":"unauthorized access"}'
_OTHER_SCOPES = (
    "send-manifest",
    "get-manifest",
    "logs",
    "shell",
    "events",
    "restart",
    "hostname-migrate",
    "ip-migrate",
    "attestation",
)


def _of_web(name: str) -> str:
    """The recorded lease status without the service that the token does not name."""
    document = json.loads(record("auth", name)["response"]["body"])
    for part in ("services", "forwarded_ports", "ips"):
        document[part].pop("db", None)
    return go_json(document)


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
    *(
        Difference("auth", (name,), 200, "A token for one service reads that service only.", body=_of_web(name))
        for name in ("claims: granular deployment", "claims: granular deployment gseq oseq")
    ),
    Difference(
        "auth",
        (
            "claims: granular service not in list, service status",
            *(f"claims: scoped {scope} on GET /lease/82022200/1/1/service/web/status" for scope in _OTHER_SCOPES),
        ),
        401,
        "The status of a service needs the scope and the service; Go asks for neither (gateway.md §12 e).",
        body=_UNAUTHORIZED,
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
    "own fields of /version": (
        "name, version, go, build_deps, cosmos_sdk_version are this provider's, not Go's; the keys are the same."
    ),
    "uris of a service status": (
        "Hostnames of that service only; Go lists every hostname of the lease (marked a defect, gateway.md §3.7). "
        "The recorded leases have one HTTP service each, so no record shows it."
    ),
    "limits": (
        "Manifest 2 MiB (413), header line 64 KiB (431), 128 headers (400), body 30 s (408), idle 75 s; Go: none."
    ),
    "order of storage classes in /status": "Sorted by name; Go's order changes from call to call.",
}
"""Records that cannot be compared, with the reason."""

STREAM_DIFFERENCES = {
    ("logs", "line over 64 KiB (70000 x)"): "A long line is sent in pieces; Go's stream ends without it.",
    ("logs", "parameter services (CLI spelling)"): "The parameter that the command line sends chooses services too.",
    ("kubeevents", "no follow, service web"): "Events are chosen by service; with Go none is found.",
    ("kubeevents", "follow, service web"): "As above.",
    ("shell", "unknown lease"): "The message says that there is no lease; Go reports success.",
    ("shell", "other tenant"): "As above.",
    ("shell", "granular, service not in list"): "A token for other services is refused.",
}
"""Streams that differ, with the reason; rows of docs/differences.md."""
