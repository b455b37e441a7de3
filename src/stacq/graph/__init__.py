"""State-constrained Q-learning on the logged states themselves: near rows, prices, exact values, chosen actions."""
