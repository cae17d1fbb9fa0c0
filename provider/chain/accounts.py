"""The base account inside an answer of the auth module, whatever kind of account holds it (chain.md §10)."""

from __future__ import annotations

from typing import Any

from cosmos.auth.v1beta1.auth_pb2 import BaseAccount, ModuleAccount
from cosmos.vesting.v1beta1.vesting_pb2 import (
    BaseVestingAccount,
    ContinuousVestingAccount,
    DelayedVestingAccount,
    PeriodicVestingAccount,
    PermanentLockedAccount,
)
from google.protobuf.message import DecodeError

__all__ = ["base_account"]

_VESTING = (ContinuousVestingAccount, DelayedVestingAccount, PeriodicVestingAccount, PermanentLockedAccount)


def base_account(packed: Any) -> BaseAccount | None:
    """The `BaseAccount` of `packed`, an `Any` that holds an account; None for a kind without one, and for bytes that
    cannot be read. A vesting account holds it two levels deep, a module account one.
    """
    try:
        return _base_account(packed)
    except DecodeError:
        return None


def _base_account(packed: Any) -> BaseAccount | None:
    plain, module, vesting = BaseAccount(), ModuleAccount(), BaseVestingAccount()
    if packed.Unpack(plain):
        return plain
    if packed.Unpack(module):
        return module.base_account
    if packed.Unpack(vesting):
        return vesting.base_account
    for kind in _VESTING:
        found = kind()
        if packed.Unpack(found):
            return found.base_vesting_account.base_account
    return None
