"""A tenant, over the public interfaces only: the chain's gRPC, and the provider's gateway.

It authenticates by a token it signs and pins the provider's account certificate.
"""

from devnet.tenant.account import Account
from devnet.tenant.errors import ChainRefused
from devnet.tenant.gateway import GatewayAnswer, ProviderGateway
from devnet.tenant.tenant import OpenBid, Tenant

__all__ = ["Account", "ChainRefused", "GatewayAnswer", "OpenBid", "ProviderGateway", "Tenant"]
