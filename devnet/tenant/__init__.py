"""A tenant, which uses only the public interfaces: the chain's gRPC and the provider's gateway.

It authenticates by a signed token and accepts only the provider's account certificate.
"""

from devnet.tenant.account import Account
from devnet.tenant.errors import ChainRefused
from devnet.tenant.gateway import GatewayAnswer, ProviderGateway
from devnet.tenant.tenant import OpenBid, Tenant

__all__ = ["Account", "ChainRefused", "GatewayAnswer", "OpenBid", "ProviderGateway", "Tenant"]
