"""When, and why? The watcher: chain, market, inventory, lifecycle, operators, gateway, funds, bus, store, settings, command line."""
