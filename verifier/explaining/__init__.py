"""Where a program communicates, forward and backward, and which fact of the forward program decides it.

`entries`: the rows, derived from a typed program. `facts`: what decides a backward row. `explanation`: rows with their
totals, as one object. `shown`: the same as people read it. `hardware`: seconds, by the ring formulas.
"""
