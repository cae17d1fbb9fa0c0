"""What is rented? Ids, resources, attributes, SDL, manifest and its hash, and `LeaseSpec`, the one handover to the
engine.

Pure data and pure functions: no I/O, no clock, no randomness. Imports nothing else of this project.
"""
