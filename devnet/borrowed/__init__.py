"""The user's cluster, borrowed for a demo: it is checked first, and all objects of the demo are removed at the end.

The demo builds nothing here. It uses the user's Pulumi and Kubernetes plugin. The chain, the provider and the tenant
run on this machine.
"""

from devnet.borrowed.cluster import BorrowedCluster
from devnet.borrowed.engine import own_engine
from devnet.borrowed.kubeconfig import chosen_context
from devnet.borrowed.plan import Plan
from devnet.borrowed.removal import give_back, give_back_earlier

__all__ = ["BorrowedCluster", "Plan", "chosen_context", "give_back", "give_back_earlier", "own_engine"]
