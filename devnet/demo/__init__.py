"""The demo: one lease from its SDL to its end, over real programs, printed step by step."""

from devnet.demo.folder import check_folder, demo_folder
from devnet.demo.interrupts import Interrupted, Interrupts
from devnet.demo.story import Borrow, DemoOptions, run_demo
from devnet.demo.user_cluster import refuse_addresses

__all__ = [
    "Borrow",
    "DemoOptions",
    "Interrupted",
    "Interrupts",
    "check_folder",
    "demo_folder",
    "refuse_addresses",
    "run_demo",
]
