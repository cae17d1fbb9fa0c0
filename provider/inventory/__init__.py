"""What the cluster has, what is reserved, what is free, and where an order fits."""
