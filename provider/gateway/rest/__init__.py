"""The REST listener, a table of routes and what each answers (gateway.md §3)."""
