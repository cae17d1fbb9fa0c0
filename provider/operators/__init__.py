"""What the provider keeps in the cluster beside the leases themselves: records, claims, and what watches over them."""
