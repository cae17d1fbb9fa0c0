"""What an operator sees: log lines, metrics, the state that `/status` shows."""
