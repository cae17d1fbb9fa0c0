"""The running provider: every part put together once, started and stopped."""
