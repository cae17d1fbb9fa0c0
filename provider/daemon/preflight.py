"""What is wrong with settings and this machine before any connection is made: every mistake, found at once.

Missing files, a price that is not set, the key, the kubeconfig, the policy file, the programs of the engine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from provider.chain.keys import load_key
from provider.daemon.backends import policy_book
from provider.daemon.queue import queue_problem
from provider.daemon.requirements import machine_lacks
from provider.errors import SettingsError
from provider.market.owner_lists import owner_rules
from provider.market.pricing.strategy import pricing_from
from provider.market.rules import rules_from
from provider.settings import Settings
from provider.tls import ClientTls
from stacks.common import EngineError, read_kubeconfig
from stacks.kube import connect

__all__ = ["mistakes"]

_FILES = {
    "LESSOR_VAULT_TOKEN_FILE": "vault_token_file",
    "LESSOR_STACK_KEY_FILE": "stack_key_file",
    "AP_GATEWAY_TLS_CERT": "gateway_tls_cert",
    "AP_GATEWAY_TLS_KEY": "gateway_tls_key",
    "LESSOR_CERT_ISSUER_CA_FILE": "cert_issuer_ca_file",
    "AP_BID_PRICE_SCRIPT_PATH": "price_script",
    "LESSOR_AKT_PRICE_FILE": "akt_price_file",
}
"""Settings that name a file which the provider itself opens later."""
_LATER = frozenset({"AP_GATEWAY_TLS_CERT", "AP_GATEWAY_TLS_KEY", "LESSOR_AKT_PRICE_FILE"})
"""Those that another program may write after the start (gateway.md §6)."""


def mistakes(settings: Settings) -> list[str]:
    """Each mistake with its remedy, none twice. Connects to nothing, starts nothing, leaves nothing behind."""
    checks: tuple[Callable[[Settings], object], ...] = (
        load_key,
        rules_from,
        lambda one: pricing_from(one, now=lambda: 0.0),
        owner_rules,
        policy_book,
        lambda one: ClientTls(one.node_tls) if one.node_tls else None,
    )
    found = [problem for check in checks for problem in _problems(check, settings)]
    parts = (_home, _cluster, _missing, _queue, _external_account)
    return list(dict.fromkeys([*found, *(problem for part in parts for problem in part(settings))]))


def _problems(check: Callable[[Settings], object], settings: Settings) -> Iterable[str]:
    try:
        check(settings)
    except SettingsError as error:
        return error.problems
    return ()


def _home(settings: Settings) -> Iterator[str]:
    """What is wrong with the home, or with the folder in which it will be made."""
    folder = next(each for each in (settings.home.absolute(), *settings.home.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".lessor-"):
            pass
    except OSError as error:
        yield f"AP_HOME={settings.home}: {folder} cannot be written: {error.strerror}; name a folder that can"


def _cluster(settings: Settings) -> Iterator[str]:
    """What is wrong with the kubeconfig, and which programs of the engine are missing."""
    yield from machine_lacks(settings)
    if settings.kubeconfig is None:
        return
    try:
        connect(read_kubeconfig(settings.kubeconfig))
    except EngineError as error:
        yield f"KUBECONFIG={settings.kubeconfig} cannot be used: {error}"


def _queue(settings: Settings) -> Iterator[str]:
    if settings.stack_queue.get_secret_value() and (problem := queue_problem(settings)):
        yield problem


def _external_account(settings: Settings) -> Iterator[str]:
    """Half of an account at the CA. A process of the gateway has no secret and orders nothing, so that its settings
    may have the other half alone.
    """
    if settings.cert_issuer and bool(settings.cert_issuer_kid) != bool(settings.cert_issuer_hmac.get_secret_value()):
        yield "AP_CERT_ISSUER_KID and AP_CERT_ISSUER_HMAC belong together"


def _missing(settings: Settings) -> Iterator[str]:
    for variable, name in _FILES.items():
        path = getattr(settings, name)
        if path and (problem := _unreadable(Path(path), later=variable in _LATER)):
            yield f"{variable}={path}: {problem}"


def _unreadable(path: Path, *, later: bool) -> str:
    try:
        found = path.stat()
    except FileNotFoundError as error:
        return "" if later else f"{error.strerror}; correct the path, or make the file"
    except OSError as error:
        return str(error.strerror)
    if not os.access(path, os.R_OK):
        return f"user {os.geteuid()} may not read it (mode {found.st_mode & 0o777:04o})"
    return "" if path.is_file() else "it is no file"
