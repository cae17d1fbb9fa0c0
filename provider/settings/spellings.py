"""How a setting may be written: as a variable, as a flag, as a key of a file; and which setting a wrong name is near.

In files and on the command line a name counts without case, `-`, `_` and `.`: `bid-price-cpu-scale`,
`bid_price_cpu_scale` and `bidpricecpuscale` are one setting, and so is its variable `AP_BID_PRICE_CPU_SCALE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from provider.settings.go_flags import CHART_KEYS, CHART_SPELLINGS, NO_MEANING, PROVIDER_RECORD
from provider.settings.model import Settings

__all__ = [
    "NOT_SETTINGS",
    "field_of",
    "flag_of",
    "is_secret",
    "key_variables",
    "nearest_name",
    "reason_of",
    "squeezed",
    "unknown_variables",
    "variables_of",
]

_PREFIX = re.compile(r"^(AP|AKASH|LESSOR)_")
_SERVICE_LINK = re.compile(r"^(.+?)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$")
_KEY_FIELDS = frozenset(
    ("mnemonic_file", "private_key_file", "armored_key_file", "passphrase_file", "store_key_file", "stack_key_file")
)
_SHELL = "A variable of tenants' and operators' shells; the provider does not read it."
NOT_SETTINGS = {
    "AP_CONFIG": "Configuration file of the inventory operator, `lessor operator inventory`.",
    "AP_API_PORT": "Port of the hardware server, `lessor tools psutil serve`.",
    "LESSOR_CACHE": "Folder of the tools that `make tools` builds. Empty: `~/.cache/lessor`.",
    "LESSOR_GO_CACHE": "`throw-away`: the build of the tools leaves no Go build cache behind.",
    "LESSOR_PYTHON": "Interpreter with which the language host runs Pulumi programs.",
    "LESSOR_LANGHOST_TRIED": "Set by the language host when it starts again with another interpreter.",
    "LESSOR_PRICE_RUN": "Set by the provider for a price program: the name of the run.",
    "LESSOR_ENGINE_DATA": "Set by the engine for its processes: it finds those that a kill has left.",
    "LESSOR_DEVNET_OWNER": "Set by tests: the process that a control plane of the devnet ends with.",
    "LESSOR_ENGINE_STACK": "Set by the engine for its processes: the stack that a process works on.",
    **dict.fromkeys(("AKASH_KEY_NAME", "AKASH_NET", "AKASH_ACCOUNT_ADDRESS", "AKASH_PROVIDER"), _SHELL),
}
"""Variables of the build, of child processes and of shells: the use of each, by name."""


def squeezed(name: str) -> str:
    """`name` without case and separators."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def variables_of(field: Any) -> tuple[str, ...]:
    """The variables of a field of the model, in the order in which they win."""
    return tuple(field.validation_alias.choices)


def is_secret(name: str) -> bool:
    """Whether the value of this field must not be shown."""
    return "SecretStr" in str(Settings.model_fields[name].annotation)


def flag_of(variable: str) -> str:
    """`bid-price-cpu-scale` for `AP_BID_PRICE_CPU_SCALE`."""
    return _PREFIX.sub("", variable).lower().replace("_", "-")


@cache
def _spellings() -> Mapping[str, str]:
    """Every spelling of each setting without case and separators, with the name of the setting's field."""
    fields = Settings.model_fields.items()
    found = {squeezed(flag_of(variable)): name for name, field in fields for variable in variables_of(field)}
    found |= {squeezed(variable): name for name, field in fields for variable in variables_of(field)}
    return found | {spelling: found[squeezed(variable)] for spelling, variable in CHART_SPELLINGS.items()}


@cache
def _reasons() -> Mapping[str, str]:
    return {**{squeezed(flag): reason for flag, reason in NO_MEANING.items()}, **CHART_KEYS}


def field_of(name: str) -> str:
    """The field of the setting that `name` spells; empty when it is no setting."""
    return _spellings().get(squeezed(name), "")


def reason_of(name: str) -> str:
    """Why `name`, a name of the Go provider or its chart, is no setting here; empty when nothing is known of it."""
    return _reasons().get(squeezed(_PREFIX.sub("", name)), "")


def nearest_name(name: str) -> str:
    """The spelling of a setting, in the manner of `name`, that is most similar to it; empty without one."""
    known = {squeezed(_written(each, like=name)): _written(each, like=name) for each in _variables()}
    found = get_close_matches(squeezed(name), [*known, *PROVIDER_RECORD], n=1, cutoff=0.75)
    return known.get(found[0], found[0]) if found else ""


def _variables() -> list[str]:
    return [variables_of(field)[0] for field in Settings.model_fields.values()]


def _written(variable: str, *, like: str) -> str:
    flag = flag_of(variable)
    return flag if "-" in like else flag.replace("-", "_") if "_" in like else flag.replace("-", "")


def key_variables() -> frozenset[str]:
    """The variables that hold a secret, or name the file of one that belongs to the provider's key or its store."""
    fields = Settings.model_fields.items()
    secret = (field for name, field in fields if name in _KEY_FIELDS or is_secret(name))
    return frozenset(variable for field in secret for variable in variables_of(field))


def unknown_variables(environment: Iterable[str]) -> dict[str, str]:
    """Variables that have a prefix of the settings and are none, each with the most similar setting (or nothing).

    The links that Kubernetes gives a pod to the Services beside it (`…_SERVICE_HOST`) are left out, and so are the
    Go provider's variables that have no meaning here.
    """
    names = frozenset(environment)
    known = {name for field in Settings.model_fields.values() for name in variables_of(field)}
    strangers = (name for name in names if _PREFIX.match(name) and name not in known | NOT_SETTINGS.keys())
    unknown = [name for name in strangers if not _is_link(name, names) and not _is_foreign(name)]
    return {name: next(iter(get_close_matches(name, known, n=1, cutoff=0.85)), "") for name in sorted(unknown)}


def _is_link(name: str, names: frozenset[str]) -> bool:
    match = _SERVICE_LINK.match(name)
    return match is not None and f"{match[1]}_SERVICE_HOST" in names


def _is_foreign(name: str) -> bool:
    return not name.startswith("LESSOR_") and flag_of(name) in NO_MEANING
