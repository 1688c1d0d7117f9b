"""Change the source in one place at a time, and see which test or proof fails.

A mutant is a module of `golden` or `hdl` with one change: a constant off by one, a condition
negated or dropped, a register removed, a reset lost. The tests that import the module run,
nearest first, until one fails; then the proofs whose hardware differs. A mutant without a killer
that is not equivalent is a hole in the tests. Sources are never touched: the processes of the
tests import the changed module in place of the true one.
"""
