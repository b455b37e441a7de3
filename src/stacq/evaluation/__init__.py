"""Rollouts of policies, and the records they leave."""
