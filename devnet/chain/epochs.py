"""Epochs of fixed length, counted from the first block (module `epochs`): events at the beginning of a block."""

from __future__ import annotations

from devnet.chain.context import Context
from devnet.chain.events import plain

__all__ = ["begin_block"]

_NS = 10**9
_LENGTH_S = {"day": 86_400, "hour": 3_600, "minute": 60, "week": 604_800}


def begin_block(ctx: Context) -> None:
    """End each epoch at the first block after its length; the next one starts at the nominal end."""
    for name, seconds in _LENGTH_S.items():
        found = ctx.get("epoch", name)
        if found is None:
            _start(ctx, name, 1, ctx.time_ns)
        elif ctx.time_ns > found[1] + seconds * _NS:
            number, started = found
            ctx.events.append(plain("akash.epochs.v1beta1.EventEpochEnd", epoch_number=f'"{number}"'))
            _start(ctx, name, number + 1, started + seconds * _NS)


def _start(ctx: Context, name: str, number: int, time_ns: int) -> None:
    ctx.put("epoch", name, value=(number, time_ns))
    text = {"epoch_number": f'"{number}"', "epoch_start_time": f'"{time_ns // _NS}"'}
    ctx.events.append(plain("akash.epochs.v1beta1.EventEpochStart", **text))
