"""Wrong rules, and who sees them: the prover, or else a law.

    python -m tests.mutate_prover [names...]     (make mutate-prover)

* *Declarations*, as `tests/mutate.py` makes them: linearity marks, joins, roles of factors. Of what a wrong one says
  otherwise the prover is asked: a typing that it newly allows has to be proved, and one that it refuses must not be.
* *Transposes* that are written into declarations, with the sign of each turned.
* *Rows* of per-device code: reduced and replicated exchanged, a collective lost, added or another one, another
  transpose. *The cotangent map*: other maps of the states.

Who sees it is counted: *solver*, a query that is refuted, or proved of what is refused; *run*, the prover's own runs
and bounded checks, where it rests on declared properties or is refused; *reading*, it contradicts itself, or its
definition; *law*, only a law of `tests/laws`, or what tests/spec says. A mutant that takes longer than it may is *over
its bound*, which is nobody's merit. What nothing sees, and what is over its bound, is listed, and makes the exit status
1. What is printed is the table that proofs/README.md keeps. How far it is, is said on standard error.
"""
