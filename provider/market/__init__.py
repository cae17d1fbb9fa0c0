"""From an order to a bid, or to the reasons against it; never twice, never without a record."""
