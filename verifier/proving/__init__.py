"""Proofs: obligations, read from declarations or written for a theorem, and what the solver says of them."""
