"""The demo: one lease from its SDL to nothing, over real parts, told step by step."""

from devnet.demo.interrupts import Interrupted, Interrupts
from devnet.demo.story import DemoOptions, run_demo

__all__ = ["DemoOptions", "Interrupted", "Interrupts", "run_demo"]
