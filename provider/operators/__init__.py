"""The operators: processes beside the provider that discover hardware and allocate addresses and hostnames."""
