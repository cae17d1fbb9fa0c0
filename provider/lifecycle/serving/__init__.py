"""An active lease: what should run, what may be applied, and the update that applies it."""
