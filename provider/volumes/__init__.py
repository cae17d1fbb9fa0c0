"""Volumes that outlive their lease for a while (off by default)."""
