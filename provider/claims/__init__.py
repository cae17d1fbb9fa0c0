"""Hostnames and leased addresses: who holds which, and the MetalLB pools made from them."""
