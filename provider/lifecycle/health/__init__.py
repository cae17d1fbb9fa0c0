"""The health of the workloads of a lease, with the cause of what does not run."""
