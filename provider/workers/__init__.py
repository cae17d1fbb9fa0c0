"""Stack operations on other machines: the leader asks by a row, and a worker's engine answers (decision 42)."""
