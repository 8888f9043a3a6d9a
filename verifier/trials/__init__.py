"""Declarations, tried: sample calls run on random operands, whole and on the blocks of devices. Nothing here proves;
what is found is a counterexample."""
