"""The demo: one lease from its SDL to its end, over real programs, printed step by step."""

from devnet.demo.interrupts import Interrupted, Interrupts
from devnet.demo.story import Borrow, DemoOptions, run_demo

__all__ = ["Borrow", "DemoOptions", "Interrupted", "Interrupts", "run_demo"]
