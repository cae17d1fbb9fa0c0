"""The strategy `shellScript`: a program of the operator names the price (bidding.md §2.3)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from lease.resources import Price
from provider.errors import PricingError, SettingsError
from provider.market.pricing.quote import PriceRequest, Pricing, Quote
from provider.market.pricing.script_input import script_input
from provider.market.pricing.script_leftovers import Leftovers
from provider.market.pricing.script_run import ProgramResult, run_program
from provider.market.pricing.script_user import ScriptUser
from provider.settings import Settings

__all__ = ["parse_amount", "script_environment", "script_pricing", "secret_variables"]

_DECIMAL = re.compile(r"[+-]?(\d+)(?:\.(\d{1,18}))?", re.ASCII)
_LARGEST = 2**256
_RECORDED = 1000
"""Characters of a script's output that are recorded and logged."""
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|MNEMONIC|CREDENTIAL|PRIVATE", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^\s/@]{1,200}(?=@)")
_SHORTEST_SECRET = 6
"""A shorter value would be found within prices and ordinary text."""
_MASK = "***"


@dataclass(frozen=True, slots=True)
class _Script:
    path: str
    timeout_s: float
    slots: asyncio.Semaphore
    user: ScriptUser | None = None
    leftovers: Leftovers = field(default_factory=Leftovers)


def script_pricing(path: str, *, process_limit: int, timeout_s: float, user: ScriptUser | None = None) -> Pricing:
    """At most `process_limit` scripts run at once. The time limit of a script starts when the script does.

    `user`: who runs it; None: the provider's own user. Raises `SettingsError` without a path, a process limit or a time
    limit. Whether the path exists is checked at each run, so that the script can be put in place later.
    """
    if not path:
        raise SettingsError("AP_BID_PRICE_SCRIPT_PATH is an empty string: shellScript needs the path of a program")
    if process_limit <= 0:
        raise SettingsError("AP_BID_PRICE_SCRIPT_PROCESS_LIMIT is 0: the process limit must be at least 1")
    if timeout_s <= 0:
        raise SettingsError("AP_BID_PRICE_SCRIPT_PROCESS_TIMEOUT is 0: the runtime limit must be above 0")
    script = _Script(path, timeout_s, asyncio.Semaphore(process_limit), user)

    async def ask(request: PriceRequest) -> Quote:
        return await _ask(script, request)

    return ask


async def _ask(script: _Script, request: PriceRequest) -> Quote:
    given, denom = script_input(request.units, request.most), request.most.denom
    environment = script_environment(os.environ, owner=request.order.owner, denom=denom)
    secrets = _secrets_of(environment)
    said = ""
    try:
        async with script.slots:
            ended = await run_program(
                script.path,
                stdin=given.encode(),
                environment=environment,
                timeout_s=script.timeout_s,
                leftovers=script.leftovers,
                user=script.user,
            )
        said = _masked(ended.stdout.decode("utf-8", "replace"), secrets)[:_RECORDED]
        amount = parse_amount(_answer(ended))
    except PricingError as error:
        return Quote("shellScript", problem=_masked(str(error), secrets), given=given, said=said)
    return Quote("shellScript", Price(denom, amount), given=given, said=said)


def script_environment(environment: Mapping[str, str], *, owner: str, denom: str) -> dict[str, str]:
    """The provider's environment without secrets, with the tenant and the denom. A URL with a password is a secret."""
    hidden = secret_variables()
    kept = {name: value for name, value in environment.items() if name not in hidden and not _secret_url(name, value)}
    return kept | {"AKASH_OWNER": owner, "AKASH_DENOM": denom}


def _secret_url(name: str, value: str) -> bool:
    return name.startswith(("AP_", "AKASH_", "LESSOR_")) and _masked(value, ()) != value


def secret_variables() -> frozenset[str]:
    """The variables of secret settings. No other program gets them."""
    fields = Settings.model_fields.values()
    return frozenset(name for field in fields if "SecretStr" in str(field.annotation) for name in _names(field))


def _names(field: object) -> tuple[str, ...]:
    return tuple(field.validation_alias.choices)  # type: ignore[attr-defined]


def _answer(ended: ProgramResult) -> str:
    if ended.status:
        how = f"was ended by signal {-ended.status}" if ended.status < 0 else f"ended with status {ended.status}"
        words = ended.stderr.decode("utf-8", "replace").strip()[:_RECORDED]
        raise PricingError(f"the price script {how}" + (f": {words}" if words else ""))
    return ended.stdout.decode("utf-8", "replace").strip()


def parse_amount(text: str) -> Decimal:
    """Digits with an optional sign and up to 18 decimals, no exponent, above zero and below 2^256. Raises
    `PricingError` with what the text is instead.
    """
    if not text:
        raise PricingError("the price script printed nothing (EOF)")
    shown = repr(text if len(text) <= 200 else text[:200] + "…")
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise PricingError(f"the price script printed {shown}: not a decimal number of at most 18 decimals")
    if len(match[1].lstrip("0")) > 78 or int(match[1]) >= _LARGEST:
        raise PricingError(f"the price script printed {shown}: larger than any price")
    amount = Decimal(text)
    if amount <= 0:
        raise PricingError(f"the price script printed {shown}: a bid must be above 0")
    return amount


def _secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables with the name of a secret, the longest first."""
    found = {
        value
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST_SECRET
    }
    return tuple(sorted(found, key=len, reverse=True))


def _masked(text: str, secrets: tuple[str, ...]) -> str:
    """`text` without these values and without the user part of URLs, since the output is recorded and logged."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return _USER.sub(_MASK, text)
