"""Figures 1 to 3 of the time-limited Bloom filter: number and size of slices, and memory."""

from itertools import pairwise
from typing import Any

import numpy as np

from ..golden.ring.time_limited import slice_bits
from ..studies.comparison import computed
from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study, Verdict
from .time_limited_findings import PAPER, WORKLOAD, bits_per_element, bits_range
from .time_limited_runs import OVER, STARTS, UNDER, measure_slices
from .time_limited_table import table_points

ERROR = 0.01
"""Rate of the filters of these figures."""


def figure_points(quick: bool) -> list[Point]:
    """Return a point for each start."""
    window = 2000 if quick else 10_000
    return [point | {"window": window} for point in table_points(False) if point["error"] == ERROR]


def _settled(spans: list[float], values: Any) -> float:
    """Spans after which values stay as they are at the end."""
    values = np.asarray(values)
    other = np.flatnonzero(values != values[-1])
    return spans[other[-1] + 1] if len(other) else 0.0


def conclude_slices(measured: list[tuple[Point, Result]]) -> Outcome:
    """Hold number and size of the slices against what sections 7.1 and 7.2 say of them."""
    findings: list[Finding] = []
    charts: list[Chart] = []
    for point, result in measured:
        start = STARTS[point["start"]]
        figure = 1 if point["start"] == UNDER else 2
        settled = []
        for name, rows in result.items():
            k, l = map(int, name.split(","))
            settled.append(_settled(rows["spans"], rows["first"]))
            findings += _slice_findings(f"Figure {figure}, k = {k}, l = {l}", k, l, point, rows)
        findings.append(_order_finding(f"Figure {figure}", settled))
        charts += _slice_charts(figure, start, result)
    findings += _memory_findings(measured)
    window = measured[0][0]["window"]
    notes = [
        WORKLOAD.format(window=window) + f" The error rate is {ERROR:g}.",
        "Nothing here is random but the keys, and on them the sizes do not depend. The charts "
        "have a point for the first and the last insertion of each generation, and where a slice "
        "passes the span: between them neither slices nor their sizes change.",
    ]
    return Outcome(findings, charts, notes)


def _slice_findings(
    what: str, k: int, l: int, point: Point, rows: dict[str, list[float]]
) -> list[Finding]:
    generation = -(-point["window"] // l)
    best = slice_bits(k * generation)
    under = point["start"] == UNDER
    most, last = max(rows["slices"]), rows["slices"][-1]
    shifted = next(size for size in rows["first"] if size != rows["first"][0])
    count = (
        _exact(f"{what}: slices in the end", f"k + l = {k + l}", last, last == k + l)
        if under
        else _exact(f"{what}: most slices", f"k + l = {k + l}", most, most == k + l)
    )
    findings = [count]
    if under:
        findings.append(computed(f"{what}: most slices", "", most))
        findings.append(
            computed(
                f"{what}: spans until there are k + l slices again",
                "",
                _settled(rows["spans"], rows["slices"]),
            )
        )
        in_the_end = rows["first"][-1]
        name = f"{what}: bits of s_0 in the end"
        findings.append(_exact(name, f"k g / ln 2 = {best}", in_the_end, in_the_end == best))
    else:
        name = f"{what}: bits of s_0 from the first shift on"
        findings.append(_exact(name, f"k g / ln 2 = {best}", shifted, shifted == best))
    time = _settled(rows["spans"], rows["first"])
    findings.append(computed(f"{what}: spans until the size of s_0 stays as it is", "", time))
    return findings


def _exact(what: str, paper: str, ours: float, met: bool) -> Finding:
    verdict = Verdict.MET if met else Verdict.NOT_MET
    return Finding(what=what, paper=paper, ours=ours, low=None, high=None, verdict=verdict)


def _order_finding(what: str, settled: list[float]) -> Finding:
    """Lower k and l take longer to stabilise (section 7.1)."""
    ordered = all(first >= second for first, second in pairwise(settled))
    times = ", ".join(f"{time:.2f}" for time in settled)
    return Finding(
        what=f"{what}: spans until s_0 is stable, least k and l over most",
        paper="above 1",
        ours=settled[0] / settled[-1],
        low=None,
        high=None,
        verdict=Verdict.MET if ordered else Verdict.NEAR if settled[0] > settled[-1]
        else Verdict.NOT_MET,
        note=f"In the order of k: {times} spans.",
    )  # fmt: skip


def _slice_charts(figure: int, start: str, result: Result) -> list[Chart]:
    def lines(values: str) -> list[Series]:
        return [
            Series(f"k, l = {name}", rows["spans"], rows[values]) for name, rows in result.items()
        ]

    memory = [
        Series(f"k, l = {name}", rows["spans"], list(bits_per_element(rows, "reported")))
        for name, rows in result.items()
    ]
    x, part = "time in spans", "a" if figure == 1 else "b"
    return [
        Chart(f"time-limited-figure-{figure}a", f"Slices, {start}", x, "slices", lines("slices")),
        Chart(
            f"time-limited-figure-{figure}b",
            f"Size of slice 0, {start}",
            x,
            "bits",
            lines("first"),
            y_log=True,
        ),
        Chart(
            f"time-limited-figure-3{part}",
            f"Memory per element, {start}",
            x,
            "bits per element",
            memory,
            y_log=True,
        ),
    ]


def _memory_findings(measured: list[tuple[Point, Result]]) -> list[Finding]:
    """Say where the bits per element settle, and that too large a start takes longer."""
    findings = []
    settled: dict[str, dict[float, float]] = {}
    for point, result in measured:
        for name, rows in result.items():
            time = _settled(rows["spans"], rows["bits"])
            settled.setdefault(name, {})[point["start"]] = time
    for name, times in settled.items():
        if len(times) < len(STARTS):
            continue
        findings.append(
            Finding(
                what=f"Figure 3, k, l = {name}: spans until the memory is stable, over- less "
                "under-dimensioned",
                paper="above 0",
                ours=times[OVER] - times[UNDER],
                low=None,
                high=None,
                verdict=Verdict.MET if times[OVER] > times[UNDER] else Verdict.NOT_MET,
                note=f"{times[OVER]:.2f} and {times[UNDER]:.2f} spans.",
            )
        )
    low, high = bits_range([result for _, result in measured], "reported")
    findings.append(computed("Figure 3: least bits per element in steady state", "", low))
    findings.append(computed("Figure 3: most bits per element in steady state", "", high))
    return findings


STUDY = Study(
    name="time-limited-figures-1-to-3",
    title="Time-limited Bloom filter: number and size of slices, and memory",
    source=f"{PAPER}, Figures 1 to 3",
    points=figure_points,
    measure=measure_slices,
    conclude=conclude_slices,
)
"""Figures 1 to 3."""
