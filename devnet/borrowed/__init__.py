"""Somebody's cluster, borrowed for a demo: looked at before anything is made, given back as it was.

Nothing is built for it. Pulumi and its Kubernetes plugin are the user's own; the chain, the provider and the tenant run
on this machine.
"""

from devnet.borrowed.cluster import BorrowedCluster
from devnet.borrowed.engine import own_engine
from devnet.borrowed.plan import Plan
from devnet.borrowed.removal import give_back, give_back_earlier

__all__ = ["BorrowedCluster", "Plan", "give_back", "give_back_earlier", "own_engine"]
