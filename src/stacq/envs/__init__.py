"""Environments: made by name, checked against data, flattened where their observations are dictionaries."""
