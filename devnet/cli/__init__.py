"""The commands `lessor demo`, `lessor devnet` and `lessor doctor`; `provider.cli.commands` names their functions."""
