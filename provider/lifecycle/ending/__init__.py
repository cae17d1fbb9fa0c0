"""The end of a lease: its proof, the brake on many removals, the request to the chain, and the removal itself."""
