"""The reference executor: a program runs whole, on one machine, and on devices that hold a block of every value each.

arithmetic    what a dtype computes; literals; a primitive on arrays
keys          random keys, and what is drawn from them
grid          devices by number: coordinates, groups, parts
moves         the collectives that a judgment derives, carried out on blocks
local         a primitive of the table on blocks
manual        casts and collectives of per-device code
machine       bodies, equation by equation
parting       devices that enter a branch, or go on with a loop, and others that do not
forms         calls, loops, branches, boundaries, cells
account       what was executed, beside what was derived
drawing       inputs from their types
comparing     how far two results may be apart, and where they first differ
rounding      how far roundings move what cancels
run           all of it on one text
trusting      programs taken at their word, where nothing judges them right
"""
