"""Who is calling, and what they may do (gateway.md §2)."""
