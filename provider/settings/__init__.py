"""The one settings model. Environment names are the Go provider's (`AP_…`, bidding.md §6) where it has the setting,
else `LESSOR_…`.

An empty value counts as not set, as in the Go provider. An error names the setting as it was written, the value (but no
secret) and what is allowed. Each part of the provider has a module of fields; in code there is one flat, frozen model.
"""

from __future__ import annotations

from provider.settings.home import LogFormat
from provider.settings.kinds import EdgeKind, GatewayForm
from provider.settings.loading import Resolution, load_settings, resolve
from provider.settings.model import Settings
from provider.settings.spellings import NOT_SETTINGS, key_variables, unknown_variables

__all__ = [
    "NOT_SETTINGS",
    "EdgeKind",
    "GatewayForm",
    "LogFormat",
    "Resolution",
    "Settings",
    "key_variables",
    "load_settings",
    "resolve",
    "unknown_variables",
]
