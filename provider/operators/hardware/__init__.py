"""The hardware of one node, read from its /sys and /proc, and the server that answers the inventory operator."""
