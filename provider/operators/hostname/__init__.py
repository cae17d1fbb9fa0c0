"""Hostnames: who may use which, recorded as ProviderHost objects."""
