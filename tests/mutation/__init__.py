"""Change the source in one place at a time, and see which test or proof notices.

A mutant is a module of `golden` or `hdl` with one change: a constant off by one, a condition
negated or dropped, a register removed, a reset lost. All tests that call the changed function
run, cheapest first, until one fails; then the proofs whose hardware it builds. Whatever nobody
notices, and what is not equivalent, is a hole in the tests. Sources are never touched: the
processes of the tests import the changed module in the place of the one in the file.
"""
