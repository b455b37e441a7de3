"""Learned dynamics: forward ensembles f(s, a), inverse ensembles I(s, s'), and how well they fit."""
