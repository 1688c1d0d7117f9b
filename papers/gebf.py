"""The GEBF paper's studies: synthetic streams, a log, and open points of the paper."""

from lately.replay.drawing import Chart, Series

from . import gebf_long, gebf_readings
from .gebf_readings import FRESH, LIVE, METRICS
from .gebf_runs import (
    BITS_PER_KEY,
    FILTERS,
    LOGS,
    PAPER,
    QUERIES,
    WINDOW,
    Queries,
    draw_queries,
    rates,
    synthetic,
)
from .gebf_verdicts import beside, median, over_seeds, series, table
from .real_streams import absence, real
from .studies.comparison import measured, never
from .studies.streams import Keys
from .studies.study import Conclusion, Finding, Point, Result, Results, chosen

KINDS = ("uniform", "zipf", "bursty")
"""Kinds of synthetic streams."""

# Synthetic streams


def measure_synthetic(point: Point) -> Result:
    """Run the five filters on one stream."""
    keys = synthetic(point["stream"], point["seed"])
    queries = draw_queries(keys, WINDOW, point["seed"])
    return _all_filters(keys, queries, WINDOW, point)


def _all_filters(keys: Keys, queries: Queries, window: int, point: Point) -> Result:
    return {
        name: rates(build(window, point["bits_per_key"], point["seed"]), keys, queries)
        for name, build in FILTERS.items()
    }


def conclude_synthetic(results: Results) -> Conclusion:
    """Hold the medians against the printed ones, over uniform streams and over all."""
    printed = chosen(results, bits_per_key=BITS_PER_KEY)
    findings = []
    for named, streams in (("uniform", KINDS[:1]), ("all", KINDS)):
        own = [(p, r) for p, r in printed if p["stream"] in streams]
        for name, metric, paper in PAPER.data["printed"]["synthetic"]:
            what, holds = f"{named} streams, {name}: {metric}", _holds(own, name, metric)
            findings.append(beside(what, paper, own, name, METRICS[metric], holds))
    findings.append(_never_missed("GEBF, blocked or not", results))
    configurations, kinds = len(results) * len(FILTERS), _kinds_table(printed)
    notes = PAPER.notes("gebf-synthetic", configurations=configurations, kinds=kinds)
    return Conclusion(findings, [_budget_chart(results)], notes)


def _never_missed(what: str, results: Results) -> Finding:
    missed = sum(round(r[name]["live"] * QUERIES) for _, r in results for name in _GUARDED)
    asked = len(results) * len(_GUARDED) * QUERIES
    return never(f"{what}: live keys missed", missed, asked, f"Of {asked:,} queries.")


_GUARDED = ("GEBF r = 4", "GEBF r = 8", "blocked GEBF r = 8")


def _holds(results: Results, name: str, metric: str) -> bool:
    """Whether what the paper concludes is so: the order of the filters, and bounded staleness."""
    fresh = [median(results, other, "fresh") for other in ("GEBF r = 8", "counting")]
    blocked = median(results, "blocked GEBF r = 8", "fresh")
    if metric == FRESH:
        return fresh[0] < blocked < fresh[1]
    if metric == LIVE:
        return median(results, name, "live") > 0.01
    # Keys older than the guard epoch are reported no more often than keys never inserted.
    beyond = median(results, name, "beyond")
    return beyond < 1.5 * fresh[0] + 20 / QUERIES


def _budget_chart(results: Results) -> Chart:
    budgets = sorted({point["bits_per_key"] for point, _ in results})
    at = [chosen(results, bits_per_key=bits) for bits in budgets]
    lines = [series(name, budgets, [(own, name) for own in at]) for name in FILTERS]
    printed = PAPER.data["printed"]["synthetic"]
    figures = [float(paper) for _, metric, paper in printed if metric == FRESH]
    marks = Series("printed", [BITS_PER_KEY] * len(figures), figures, marks=True)
    return PAPER.chart("gebf-synthetic", [*lines, marks])


def _kinds_table(results: Results) -> str:
    rows = []
    for kind in KINDS:
        own = chosen(results, stream=kind)
        for name in FILTERS if own else ():
            values = (f"{median(own, name, metric):.5f}" for metric in METRICS.values())
            rows.append((kind, name, *values))
    return table(f"| stream | filter | {' | '.join(METRICS)} |", rows)


# Logs


def measure_log(point: Point) -> Result:
    """Run the five filters on one log; nothing but 'absent' if its file is."""
    stream, window = LOGS[point["log"]]
    keys = real(stream)
    if keys is None:
        return {"absent": True}
    queries = draw_queries(keys, window, point["seed"])
    return _all_filters(keys, queries, window, point)


def conclude_logs(results: Results) -> Conclusion:
    """Set the paper's log beside ours, at 14 bits per key."""
    present = [(p, r) for p, r in results if "absent" not in r]
    absent = sorted({p["log"] for p, r in results if "absent" in r})
    findings = []
    for log in LOGS:
        own = chosen(present, log=log, bits_per_key=BITS_PER_KEY)
        findings += _log_findings(log, own) if own else []
    notes = PAPER.notes("gebf-logs")
    if present:
        findings.append(_never_missed("all logs, GEBF, blocked or not", present))
    missing = [absence(LOGS[log][0], f"the rows on {log}") for log in absent]
    return Conclusion(findings, [], notes, missing)


def _log_findings(log: str, results: Results) -> list[Finding]:
    findings = []
    fresh = {name: median(results, name, "fresh") for name in ("GEBF r = 8", "counting")}
    for name, metric, paper in PAPER.data["printed"]["log"]:
        missed = median(results, "stable", "live") > 0
        holds = missed if metric == LIVE else fresh["GEBF r = 8"] < fresh["counting"]
        note = "Another log than the paper's: its order of the filters is found again."
        if not holds:
            note = "Another log than the paper's, and not its order of the filters."
        column = results, name, METRICS[metric]
        value = (median(*column), *over_seeds(*column))
        findings.append(measured(f"{log}, {name}: {metric}", paper, value, note=note))
    return findings


STUDIES = (
    PAPER.study("gebf-synthetic", measure_synthetic, conclude_synthetic),
    PAPER.study(
        "gebf-readings",
        gebf_readings.measure_reading,
        gebf_readings.conclude_readings,
    ),
    PAPER.study(
        "gebf-rotation",
        gebf_readings.measure_rotation,
        gebf_readings.conclude_rotation,
    ),
    *gebf_long.STUDIES,
    PAPER.study("gebf-logs", measure_log, conclude_logs),
)
"""Synthetic streams, readings of the paper, its closed form and long run, and logs."""
