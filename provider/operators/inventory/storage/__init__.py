"""How much each storage class of the cluster can hold, by the storage system behind the class (operators.md §2.9)."""
