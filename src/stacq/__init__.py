"""State-constrained offline reinforcement learning."""
