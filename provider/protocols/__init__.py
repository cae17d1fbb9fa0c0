"""The five ports behind which every effect of the provider lives (docs/architecture.md §3).

Each module holds one port and the data that crosses it. Each port has a real implementation and a scripted fake in
`tests/world/`. Nothing else in `provider/` touches the network, a process or the time.
"""

from provider.protocols.bus import Bus, Subscription
from provider.protocols.chain import Chain
from provider.protocols.clock import Clock
from provider.protocols.cluster import Cluster
from provider.protocols.engine import StackEngine

__all__ = ["Bus", "Chain", "Clock", "Cluster", "StackEngine", "Subscription"]
