"""The price of a bid: one module for each strategy that an operator can choose."""
