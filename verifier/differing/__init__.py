"""Two programs side by side: which of their equations are the same ones, which types of those changed, and which
communication appeared or went."""
