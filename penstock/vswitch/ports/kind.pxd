"""What a kind of port declares of itself; Python only."""
