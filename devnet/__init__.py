"""The devnet: the whole surroundings of a provider on one machine, with tools, control plane, chain and tenant.

It serves development and tests. The provider does not import it.
"""

import os

os.environ.setdefault(
    "GRPC_ENABLE_FORK_SUPPORT", "false"
)  # children are started by exec; gRPC would print a warning for each
