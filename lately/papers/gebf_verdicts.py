"""Medians, intervals over seeds and verdicts of the GEBF paper's studies."""

import statistics

from ..intervals import clopper_pearson
from ..studies import comparison as verdicts
from ..studies.comparison import SHARES, student
from ..studies.study import Finding, Point, Result, Verdict

Results = list[tuple[Point, Result]]
"""Points with their results."""
Interval = tuple[float, float]
"""Ends of a confidence interval."""


def median(results: Results, name: str, metric: str) -> float:
    """Return the median of a metric of a filter over all results."""
    return float(statistics.median(result[name][metric] for _, result in results))


def over_seeds(results: Results, name: str, metric: str) -> Interval:
    """Return Student's interval for the mean over seeds, of the median over all else."""
    by_seed: dict[int, list[float]] = {}
    for point, result in results:
        by_seed.setdefault(point["seed"], []).append(result[name][metric])
    values = [statistics.median(own) for own in by_seed.values()]
    if len(values) < 2:
        return values[0], values[0]
    return student(values, within=SHARES)[1:]


def judge(paper: str, value: float, interval: Interval, holds: bool) -> tuple[Verdict, str]:
    """Return how a value stands to the printed one, and a sentence if it is another.

    Parameters
    ----------
    paper : str
        As printed; not 0.
    value : float
    interval : (float, float)
    holds : bool
        Whether what the paper concludes from its figure is so, which the
        sentence tells and the verdict (`verdicts.judge`) does not hang on.

    Raises
    ------
    ValueError
        If what is printed is no number.
    """
    verdict = verdicts.judge(paper, value, *interval)
    if verdict is Verdict.MET:
        return verdict, ""
    figure = float(paper)
    off = f"{abs(value / figure - 1):.0%} {'above' if value > figure else 'below'} the figure"
    also = "what it is printed for is found again" if holds else "nor what it is printed for"
    return verdict, f"{off}; {also}."


def never(what: str, events: int, trials: int) -> Finding:
    """Return the finding of what must not happen, beside a printed 0."""
    interval = clopper_pearson(events, trials) or (0.0, 1.0)
    verdict = Verdict.NOT_MET if events else Verdict.MET
    return Finding(what, "0", events / trials, *interval, verdict, f"Of {trials:,} queries.")
