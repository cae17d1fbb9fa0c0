"""What a cluster needs once: the program behind the top-level `Pulumi.yaml`."""
