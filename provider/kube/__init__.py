"""The Kubernetes API: the client and the labels of everything that Lessor writes."""
