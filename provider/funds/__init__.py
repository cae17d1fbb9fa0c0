"""Money: what tenants' escrow still holds, what it owes us, when to collect it, and what our wallet can pay for."""
