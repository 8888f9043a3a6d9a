"""Measurements. `python -m bench` compares the time from a text to a checked program with JAX's own checker."""
