"""Logged data in: one Dataset, and the readers, writers and registry around it."""
