"""What must never be? Rules over plain Kubernetes manifests, used by the policy pack, by the worker before it registers anything, and by audits."""
