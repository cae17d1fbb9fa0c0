"""The records of a lease in the cluster: the accepted manifest and the last LeaseSpec that was applied."""
