"""Environments: made by name, checked against data, flattened where they speak in dictionaries."""
