"""The door to JAX: its programs as terms, functions traced to them, and the names and lines that people know."""
