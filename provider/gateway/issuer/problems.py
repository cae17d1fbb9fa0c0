"""Errors of a CA and of the way to it, in words for the operator, each with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import requests
from acme import errors, messages

from lease.printable import printable_line
from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued

__all__ = ["no_challenge", "not_issued", "not_valid"]

_LONGEST = 400
_WAIT = "none: it is tried again by itself"
_ROUTE = (
    "pass http://{name}/.well-known/acme-challenge/ (port 80) on to AP_CERT_ISSUER_HTTP_CHALLENGE_PORT={listen} of "
    "this provider"
)
_REMEDIES: Mapping[str, str] = {
    "connection": _ROUTE,
    "unauthorized": "something else answers there; " + _ROUTE,
    "incorrectResponse": "something else answers there; " + _ROUTE,
    "tls": _ROUTE,
    "dns": "give {name} an A record that names this provider's edge",
    "dnssec": "correct the DNSSEC records of {name}",
    "caa": "allow this CA in the CAA record of {name}",
    "rejectedIdentifier": "name a CA that issues for {name} (AP_CERT_ISSUER_CA_DIR_URL), or another hostname",
    "rateLimited": "none: the CA's limit is waited for; see that only one provider orders for {name}",
    "externalAccountRequired": "set AP_CERT_ISSUER_KID and AP_CERT_ISSUER_HMAC, which the CA gives out",
    "invalidContact": "correct AP_CERT_ISSUER_EMAIL",
    "unsupportedContact": "correct AP_CERT_ISSUER_EMAIL",
    "accountDoesNotExist": "remove the account's key {account}; the provider makes another one",
    "badSignatureAlgorithm": "remove the account's key {account}; the provider makes another one",
    "badPublicKey": "remove the account's key {account}; the provider makes another one",
    "userActionRequired": "do what the CA's text says",
}


def not_issued(error: Exception, config: IssuerConfig, *, retry_after_s: float = 0.0) -> NotIssued:
    """What any error of an order means."""
    if isinstance(error, NotIssued):
        return error
    if isinstance(error, errors.IssuanceError):
        error = error.error
    if isinstance(error, messages.Error):
        problem, code = f"the CA refuses: {_text(error)}", error.code or ""
        return NotIssued(problem, _remedy(code, config.names[0], config), retry_after_s=retry_after_s)
    where = config.directory
    if isinstance(error, requests.exceptions.SSLError):
        remedy = "correct AP_CERT_ISSUER_CA_DIR_URL; for a private CA name its roots with LESSOR_CERT_ISSUER_CA_FILE"
        return NotIssued(f"the CA at {where} cannot be trusted: {_root(error)}", remedy)
    if isinstance(error, requests.exceptions.RequestException | OSError) and not isinstance(error, ValueError):
        remedy = "none, if the CA is away for a while; else correct AP_CERT_ISSUER_CA_DIR_URL, or open the way to it"
        return NotIssued(f"the CA at {where} does not answer: {_root(error)}", remedy, retry_after_s=retry_after_s)
    if isinstance(error, errors.TimeoutError | TimeoutError):
        return NotIssued(f"the CA at {where} has not finished the order in time", _WAIT)
    problem = f"the CA at {where} has sent what is no answer of ACME: {_root(error)}"
    return NotIssued(problem, "correct AP_CERT_ISSUER_CA_DIR_URL", retry_after_s=retry_after_s)


def not_valid(name: str, challenges: list[messages.ChallengeBody], config: IssuerConfig) -> NotIssued:
    """The CA has not found its challenge answered."""
    refused = [each.error for each in challenges if each.error is not None]
    texts = "; ".join(dict.fromkeys(map(_text, refused))) or "without a reason"
    code = (refused[0].code or "") if refused else ""
    return NotIssued(f"the CA could not validate {name}: {texts}", _remedy(code or "connection", name, config))


def no_challenge(name: str) -> NotIssued:
    return NotIssued(
        f"the CA offers no challenge over HTTP for {name}",
        "order the certificate with another program, and name its file with AP_GATEWAY_TLS_CERT",
    )


def _remedy(code: str, name: str, config: IssuerConfig) -> str:
    return _REMEDIES.get(code, _WAIT).format(name=name, listen=config.listen, account=config.account_key)


def _text(error: messages.Error) -> str:
    """The CA's text is a stranger's: one line, and not too long."""
    text = printable_line(str(error.detail or error.title or error.description or "no reason given"))
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return f"{shown} ({error.code})" if error.code else shown


def _root(error: BaseException) -> str:
    """The first cause, since the libraries above it repeat it with their own objects."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    text = printable_line(str(getattr(error, "strerror", None) or error or type(error).__name__))
    return text[:_LONGEST]
