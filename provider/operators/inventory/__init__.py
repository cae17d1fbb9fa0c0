"""The inventory operator: what each node of the cluster has and what is taken, published for the provider's market."""
