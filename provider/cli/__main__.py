"""`python -m provider.cli`: the `lessor` command, for processes that start it without a path."""

from provider.cli import main

main()
