"""Money: what escrow accounts hold and owe, when to withdraw it, and what the provider's wallet can pay for."""
