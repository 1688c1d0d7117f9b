"""Medians, intervals over seeds and verdicts of the GEBF paper's studies."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lately.intervals import Interval
from lately.replay.drawing import Series

from .studies.comparison import SHARES, measured, student
from .studies.criteria import Verdict
from .studies.study import Finding, Results


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


def beside(what: str, paper: str, results: Results, name: str, metric: str, holds: bool) -> Finding:
    """Return the finding of a median beside the printed one, with a sentence if it is another.

    The sentence states whether the paper's conclusion from its figure `holds`; the verdict does
    not depend on it.

    Raises
    ------
    ValueError
        If what is printed is no number, or 0.
    """
    value = (median(results, name, metric), *over_seeds(results, name, metric))
    found = measured(what, paper, value)
    if found.verdict is Verdict.MET:
        return found
    figure = float(paper)
    off = f"{abs(value[0] / figure - 1):.0%} {'above' if value[0] > figure else 'below'} the figure"
    also = "what it is printed for is found again" if holds else "nor what it is printed for"
    return replace(found, note=f"{off}; {also}.")


def series(label: str, x: Sequence[float], runs: Iterable[tuple[Results, str]]) -> Series:
    """Return medians of the fresh keys reported, each over results of the filter of a name."""
    values = [(median(own, name, "fresh"), *over_seeds(own, name, "fresh")) for own, name in runs]
    return Series.estimated(label, x, values)


def table(header: str, rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table in Markdown."""
    lines = [header, "|" + "---|" * (header.count("|") - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
