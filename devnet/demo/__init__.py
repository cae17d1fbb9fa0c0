"""The demo: one lease from its SDL to nothing, over real parts, told step by step."""

from devnet.demo.interrupts import Interrupted, Interrupts
from devnet.demo.story import Borrow, DemoOptions, run_demo

__all__ = ["Borrow", "DemoOptions", "Interrupted", "Interrupts", "run_demo"]
