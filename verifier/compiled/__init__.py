"""What compilers make of programs, beside what the types say of them: `shardproof agree --target`.

`module` reads the text of XLA's modules, `groups` the devices that take part in a collective, `reading` the
collectives of a module. `derived` has those that the types say, `matching` sets the two beside each other, and
`classes` names what the differences are. `agreement` runs it all. None of it needs JAX: compilers are called in
`verifier.with_jax.compiling`.
"""
