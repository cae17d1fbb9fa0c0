"""When, and why? The watcher: chain, market, inventory, lifecycle, operators, gateway, bus, store, command line."""
