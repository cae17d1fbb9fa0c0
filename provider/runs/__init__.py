"""The history of a lease: each engine run, the manifest versions, and why a run was made."""
