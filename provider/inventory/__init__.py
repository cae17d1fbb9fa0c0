"""What is there, what is promised, what is free, and where an order would fit."""
