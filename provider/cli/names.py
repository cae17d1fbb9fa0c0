"""The names that commands take for a tenant and for a lease: text that can be none of them is wrong usage."""

from __future__ import annotations

import re

import typer

__all__ = ["account", "lease_name"]

_EXAMPLE = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
_ACCOUNT = re.compile(r"[a-z]+1[a-z0-9]{6,58}")
_DSEQ = re.compile(r"([0-9]{1,20})(/[0-9]{1,10}){0,2}/?")
_LEASE = re.compile(r"[a-z]+1[a-z0-9]{6,58}(/[0-9]{1,20}(/[0-9]{1,10}(/[0-9]{1,10}(/[a-z]+1[a-z0-9]{6,58})?)?)?)?/?")
_NAMESPACE = re.compile(r"(?![0-9]{20})[0-9a-v]{4,63}")
"""A beginning of one: base32hex, of which twenty digits in a row are a dseq that is too large."""
_LONGEST = 200


def account(value: str) -> str:
    """The address as it is; an empty text stays empty. Raises `typer.BadParameter` for text that is no address: a label
    of the cluster, and a column of the store, hold such a text only.
    """
    if value and (len(value) > 63 or not _ACCOUNT.fullmatch(value)):
        raise typer.BadParameter(f"{value[:_LONGEST]!r} is no bech32 address, such as {_EXAMPLE}")
    return value


def lease_name(value: str | None) -> str | None:
    """The name as it is. Raises `typer.BadParameter` for text that can name no lease: it is neither an id or the
    beginning of one, nor a dseq, dseq/gseq/oseq or (a beginning of) a namespace.
    """
    if not value or _LEASE.fullmatch(value) or _NAMESPACE.fullmatch(value) or _is_dseq(value):
        return value
    raise typer.BadParameter(
        f"{value[:_LONGEST]!r} can name no lease: a name is a dseq, dseq/gseq/oseq, "
        "owner/dseq/gseq/oseq/provider or a namespace"
    )


def _is_dseq(value: str) -> bool:
    match = _DSEQ.fullmatch(value)
    return match is not None and 0 < int(match[1]) < 2**64
