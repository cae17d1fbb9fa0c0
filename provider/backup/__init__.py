"""The home of a provider as one file, and a home from such a file."""
