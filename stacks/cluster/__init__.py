"""The cluster stack: everything that a cluster needs once. It is the program behind the top-level `Pulumi.yaml`."""
