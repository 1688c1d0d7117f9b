"""Figures 4, 7, 9, 10 and 12 of the cuckoo paper: synthetic streams."""

from collections.abc import Callable, Sequence

from ..studies.study import Chart, Finding, Outcome, Point, Result, Series, Study, Verdict
from .cuckoo_findings import (
    LABELS,
    PAPER,
    Runs,
    by_structure,
    claim,
    comparison,
    no_misses,
    ours,
    own_keys,
    peaks,
    rate_series,
    same_rate,
    structures,
)
from .cuckoo_runs import (
    Estimate,
    best_hashes,
    dictionary,
    fresh_rate,
    measure,
    ratio,
    student,
    timing,
)

WINDOW = 1000
"""Window of Figures 4, 7 and 12."""


def _list_series(runs: Runs, x: Sequence[float], also: str = "") -> list[Series]:
    series = []
    for name in ("plain", "signed"):
        columns = zip(*(peaks(value) for value in runs[name]), strict=True)
        mean, low, high = (list(column) for column in columns)
        series.append(Series(LABELS[name] + also, x, mean, low, high))
    return series


# Figures 4 and 7


def points_zipf(quick: bool) -> list[Point]:
    """Return a point for each exponent and seed."""
    counters = [4000, 7000, 10_000] if quick else list(range(4000, 10_001, 1000))
    size = (
        {"measured": 10_000, "fresh": 50_000} if quick else {"measured": 60_000, "fresh": 200_000}
    )
    setups = [setup for each in counters for setup in structures(each, WINDOW)]
    return [
        {"z": z, "seed": seed, "counters": counters, "setups": setups} | size
        for z in (0.0, 1.0)
        for seed in range(3 if quick else 6)
    ]


def conclude_zipf(results: list[tuple[Point, Result]]) -> Outcome:
    """Compare rates and list of uniform and skewed streams."""
    findings, charts, lists = [], [], []
    counters = results[0][0]["counters"]
    ends: dict[float, list[Estimate]] = {}
    for z in (0.0, 1.0):
        runs = by_structure([entry for entry in results if entry[0]["z"] == z], [*LABELS])
        for at in (0, -1):
            chosen = {name: values[at] for name, values in runs.items()}
            findings += comparison(f"z = {z:g}, {counters[at]:,} counters", chosen)
            findings += own_keys(f"z = {z:g}, {counters[at]:,} counters", chosen)
        ends[z] = [fresh_rate(runs[name][-1]) for name in ("plain", "signed")]
        findings += _zipf_lists(z, counters, runs)
        lists += _list_series(runs, counters, f", z = {z:g}")
        charts.append(_zipf_chart(z, runs))
    for name, even, skewed in zip(("plain", "signed"), *ends.values(), strict=True):
        findings.append(_skew(name, ratio(even, skewed)))
    findings.append(no_misses(results))
    charts.append(
        Chart("cuckoo-figure-7", "Most keys in the list", "counters", "keys", series=lists)
    )
    return Outcome(findings, charts, [_METHOD, _COUNTS, _SKEW])


def _zipf_lists(z: float, counters: Sequence[int], runs: Runs) -> list[Finding]:
    return [
        ours(f"z = {z:g}, {counters[at]:,} counters: {LABELS[name]}: most in the list", peak)
        for name in ("plain", "signed")
        for at in (0, -1)
        for peak in [peaks(runs[name][at])]
    ]


def _skew(name: str, quotient: Estimate) -> Finding:
    verdict = Verdict.MET if quotient[1] <= 1 <= quotient[2] else Verdict.NEAR
    note = "1 if the same; a skewed window has fewer different keys, and so a lower rate"
    what = f"{LABELS[name]}, most counters: rate at z = 0 over that at z = 1"
    return Finding(what, "no significant difference", *quotient, verdict, note)


def _zipf_chart(z: float, runs: Runs) -> Chart:
    def bits(name: str) -> list[float]:
        return [student([run["bits"] for run in seeds])[0] / 1000 for seeds in runs[name]]

    return Chart(
        name=f"cuckoo-figure-4-z{z:g}",
        title=f"False positives in a window of {WINDOW:,}, z = {z:g}",
        x="thousand bits, list included",
        y="false-positive rate",
        y_log=True,
        series=rate_series(runs, bits),
    )


# Figures 9 and 10


def points_window(quick: bool) -> list[Point]:
    """Return a point for each seed."""
    windows = [1000, 5000, 10_000] if quick else list(range(1000, 10_001, 1000))
    size = {"measured": 5000, "fresh": 50_000} if quick else {"measured": 40_000, "fresh": 200_000}
    setups = [setup for window in windows for setup in structures(20_000, window)]
    return [
        {"z": 0.0, "seed": seed, "windows": windows, "setups": setups} | size
        for seed in range(3 if quick else 6)
    ]


def conclude_window(results: list[tuple[Point, Result]]) -> Outcome:
    """Tell how rate and list grow with the window."""
    windows = results[0][0]["windows"]
    runs = by_structure(results, [*LABELS])
    findings = []
    for at in (0, -1):
        chosen = {name: values[at] for name, values in runs.items()}
        findings += comparison(f"n = {windows[at]:,}", chosen)
        for name in ("plain", "signed"):
            findings.append(same_rate(f"n = {windows[at]:,}", name, chosen[name], windows[at]))
    for name in ("plain", "signed"):
        sizes = [peaks(value) for value in runs[name]]
        what = f"{LABELS[name]}: most in the list, n = {windows[-1]:,}"
        grows = sizes[-1][1] > sizes[0][2]
        findings.append(claim(what, "grows with the window", sizes[-1], grows))
        findings.append(_list_share(name, runs[name][-1], windows[-1]))
    findings.append(no_misses(results))
    charts = [
        Chart(
            name="cuckoo-figure-9",
            title="False positives with 20,000 counters, z = 0",
            x="window",
            y="false-positive rate",
            y_log=True,
            series=rate_series(runs, lambda _: windows),
        ),
        Chart(
            name="cuckoo-figure-10",
            title="Most keys in the list with 20,000 counters",
            x="window",
            y="keys",
            series=_list_series(runs, windows),
        ),
    ]
    return Outcome(findings, charts, [_METHOD, _COUNTS, _CROWDED])


def _list_share(name: str, runs: Sequence[Result], window: int) -> Finding:
    shares = [run["peak"] / window for run in runs]
    return ours(f"{LABELS[name]}: the same, over the window", student(shares))


# Figure 12


def points_signature(quick: bool) -> list[Point]:
    """Return a point for each seed; the dictionary has longer signatures up to 10 bits."""
    lengths = [1, 4, 7, 10] if quick else list(range(1, 11))
    size = {"measured": 5000, "fresh": 300_000} if quick else {"measured": 20_000, "fresh": 400_000}
    setups = [
        setup
        for length in lengths
        for setup in (timing(10_000, length, WINDOW), dictionary(10_000, length, WINDOW))
    ]
    return [
        {"z": 0.0, "seed": seed, "lengths": lengths, "setups": setups} | size
        for seed in range(3 if quick else 8)
    ]


def conclude_signature(results: list[tuple[Point, Result]]) -> Outcome:
    """Tell how both rates change with the signature and the number of hash functions."""
    lengths = results[0][0]["lengths"]
    names = ["timing Bloom filter, K hashes", "dictionary, signature of K bits"]
    runs = by_structure(results, names)
    filters, dictionaries = ([fresh_rate(value) for value in runs[name]] for name in names)
    lowest = min(range(len(lengths)), key=lambda at: filters[at][0])
    findings = [
        ours(f"K = {length}: {name}: false-positive rate", rates[lengths.index(length)])
        for length in (1, 4, 10)
        for name, rates in zip(names, (filters, dictionaries), strict=True)
    ]
    findings += [
        claim(
            f"timing Bloom filter: rate at K = 10 over the lowest, at K = {lengths[lowest]}",
            "increases if K is too large",
            rise := student(_quotients(runs[names[0]][-1], runs[names[0]][lowest])),
            rise[1] > 1,
            f"the best by theory is K = {best_hashes(10_000, WINDOW)}",
        ),
        claim(
            "dictionary: rate at K = 1 over that at K = 4",
            "decreases very quickly",
            fall := ratio(dictionaries[0], dictionaries[lengths.index(4)]),
            fall[1] > 1,
            "8 is expected: half for every bit",
        ),
        no_misses(results),
    ]
    bounds = Series(
        "bound of the dictionary",
        lengths,
        [runs[names[1]][at][0]["bound"] for at in range(len(lengths))],
    )
    chart = Chart(
        name="cuckoo-figure-12",
        title="False positives with 10,000 counters, window of 1,000",
        x="K",
        y="false-positive rate",
        y_log=True,
        series=[*rate_series(runs, lambda _: lengths), bounds],
    )
    return Outcome(findings, [chart], [_METHOD])


def _quotients(above: Sequence[Result], below: Sequence[Result]) -> list[float]:
    """Return the quotient of the rates of each seed."""
    pairs = zip(above, below, strict=True)
    return [one["hits"] / one["fresh"] / (other["hits"] / other["fresh"]) for one, other in pairs]


_METHOD = """\
Keys are drawn from 100,000 after Zipf, as in the paper, and checked and inserted one after
another. After the first window, the rate is that at which keys are reported that were never
inserted, asked for at eleven moments; intervals are over all seeds. The paper does not say how
many insertions it measured, nor how many hash functions the timing Bloom filter has in Figures 4
and 9; its text has 4 for Figure 14, as many as the signature has bits. A second filter has the
number that is best for its size and for the different keys of a window. Timestamps of both go up
to 2 n. Speed (Figures 5, 6, 8 and 11) is left out: that of a model in Python says nothing."""

_COUNTS = """\
The paper gives both structures the same number of counters: a position of the dictionary has two,
or three with a signature. They have nearly the same number of bits, too, but the list comes on
top: its keys have 64 bits here, and the charts count the most that were ever in it."""

_SKEW = """\
The rate is the number of live entries over the square of the positions and over the signatures,
and a skewed stream has fewer different keys in a window. On a logarithmic axis the difference is
small beside that to the timing Bloom filter, which is what the paper says."""

_CROWDED = """\
Where the tables have fewer positions than the window has keys, the list takes the rest. The
bound holds all the same, but the list then needs more bits than its share: whole keys."""


def study(
    name: str,
    title: str,
    source: str,
    points: Callable[[bool], list[Point]],
    conclude: Callable[[list[tuple[Point, Result]]], Outcome],
) -> Study:
    """Return a study of runs on streams."""
    return Study(name, title, f"{PAPER}, {source}", points, measure, conclude)


ZIPF = study(
    "cuckoo-figure-4",
    "Cuckoo dictionary: false positives and list on Zipf streams",
    "Figures 4 and 7",
    points_zipf,
    conclude_zipf,
)
"""Figures 4 and 7."""

WINDOWS = study(
    "cuckoo-figure-9",
    "Cuckoo dictionary: false positives and list with the window",
    "Figures 9 and 10",
    points_window,
    conclude_window,
)
"""Figures 9 and 10."""

SIGNATURES = study(
    "cuckoo-figure-12",
    "Cuckoo dictionary: false positives with the signature",
    "Figure 12",
    points_signature,
    conclude_signature,
)
"""Figure 12."""
