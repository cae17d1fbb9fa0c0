"""The socket between the provider and a gateway that is a process of its own."""
