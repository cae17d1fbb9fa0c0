"""The end of a lease: the proof that it ended, the brake on many removals, and the removal itself."""
