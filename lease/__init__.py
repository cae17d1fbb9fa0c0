"""What is rented: ids, resources, attributes, SDL, manifest and its hash, and `LeaseSpec`, the engine's only input.

The package holds pure data and pure functions: no I/O, no clock, no randomness. It imports nothing else of this
project.
"""
