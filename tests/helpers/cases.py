"""Cases of parametrised tests, of which some run every day and all in a long run."""

import pytest


def daily(count, cases):
    """Mark all cases but the first `count` as slow.

    Parameters
    ----------
    cases : iterable
        Each as `pytest.mark.parametrize` takes it.
    """
    marked = []
    for number, case in enumerate(cases):
        if not isinstance(case, type(pytest.param())):
            case = pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)
        marks = (*case.marks, pytest.mark.slow) if number >= count else case.marks
        marked.append(case._replace(marks=marks))
    return marked
