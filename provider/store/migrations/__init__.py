"""The history of the schema, applied at start."""
