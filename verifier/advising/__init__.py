"""Advice: another placement of a program's values along a mesh axis, at which it communicates less.

`choices` says which types a value may have, `cells` which judgments an equation may have at those, and their prices,
`network` what they have to do with one another, `solving` asks the solver, `rewriting` writes the program that an
answer means, and `advice` has it judged and priced again.
"""
