"""Leased addresses: which tenant holds which, recorded as ProviderLeasedIP objects, and the pools made for them."""
