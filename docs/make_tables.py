"""Write tables.md: Tables 1 to 3 of the APBF paper beside the figures of lately.golden.analysis."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

from lately.golden import analysis

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data"
PAGE = HERE / "tables.md"

Row = Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """One table of the paper: its file, the columns that name a row, and our figures for a row."""

    number: int
    file: str
    key: tuple[str, ...]
    ours: Callable[[Row], dict[str, float]]

    def rows(self) -> list[dict[str, str]]:
        with open(DATA / self.file, newline="") as file:
            return list(csv.DictReader(file))

    def name(self, row: Row) -> str:
        return ", ".join(f"{column} = {row[column]}" for column in self.key)


TABLES = (
    Table(
        1,
        "apbf_table1_bloom.csv",
        ("k",),
        lambda row: analysis.bloom_metrics(analysis.bloom_hashes(float(row["aimed_fp"]))),
    ),
    Table(
        2,
        "apbf_table2_apbf.csv",
        ("k", "l"),
        lambda row: analysis.apbf_metrics(int(row["k"]), int(row["l"]), profile="linear"),
    ),
    Table(
        3,
        "apbf_table3_apbbf.csv",
        ("k", "l", "B", "b"),
        lambda row: analysis.apbbf_metrics(*(int(row[column]) for column in "klBb")),
    ),
)

HEADINGS = {
    "bits_per_item": "bits per item",
    "actual_fp": "false-positive rate",
    "accesses_true": "accesses, true",
    "accesses_false": "accesses, false",
    "accesses_window": "accesses, window",
    "accesses_fp": "accesses, false positive",
    "efficiency": "efficiency",
    "npws": "NPWS",
    "fp_apbbf": "rate of APBBF",
    "fp_apbf_same_memory": "rate of APBF",
    "relative_capacity": "capacity",
}

CUT = "cut off after the last printed digit instead of rounded"
MILLION = "the printed figure takes a false-positive rate of 10^-6 where the row has 10^-5"
LAST = "one unit in the last digit; no reading found"
REASONS = {
    (1, "k = 7", "bits_per_item"): CUT,
    (1, "k = 10", "bits_per_item"): CUT,
    (1, "k = 14", "bits_per_item"): CUT,
    (1, "k = 14", "actual_fp"): CUT,
    (1, "k = 17", "bits_per_item"): CUT,
    (1, "k = 17", "actual_fp"): CUT,
    (2, "k = 4, l = 3", "npws"): "the printed figure leaves out the last of the k terms",
    (2, "k = 10, l = 7", "npws"): CUT,
    (2, "k = 11, l = 46", "accesses_window"): LAST,
    (2, "k = 13, l = 23", "actual_fp"): "the printed figure is the rate at l = 22",
    (2, "k = 13, l = 23", "efficiency"): "follows from the printed rate, that at l = 22",
    (2, "k = 17, l = 36", "accesses_fp"): LAST,
    (2, "k = 18, l = 16", "accesses_window"): CUT,
    (2, "k = 19, l = 22", "efficiency"): MILLION,
    (2, "k = 20, l = 33", "efficiency"): MILLION,
    (2, "k = 20, l = 33", "accesses_false"): (
        "3.674968 was rounded twice, by way of 3.675; no other figure shows this"
    ),
    (2, "k = 21, l = 54", "efficiency"): MILLION,
}
"""Why a figure differs: by table, row and column."""


def to_digits_of(printed: str, value: float) -> str:
    """Round a value to as many digits as are printed."""
    step = Decimal(1).scaleb(-len(printed.partition(".")[2]))
    return f"{Decimal(value).quantize(step, rounding=ROUND_HALF_EVEN):f}"


def differences() -> Iterator[tuple[int, str, str, str, str, float]]:
    """Yield table, row, column, printed, ours and our value where printed and ours differ."""
    for table in TABLES:
        for row in table.rows():
            for column, value in table.ours(row).items():
                rounded = to_digits_of(row[column], value)
                if rounded != row[column]:
                    yield table.number, table.name(row), column, row[column], rounded, value


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Lay out a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def beside(table: Table) -> str:
    """Lay out a table of the paper, each printed figure with ours after it."""
    rows = []
    for row in table.rows():
        cells = [row[column] for column in table.key]
        for column, value in table.ours(row).items():
            rounded = to_digits_of(row[column], value)
            cells += [row[column], rounded if rounded == row[column] else f"**{rounded}**"]
        if table.number == 2:
            exact = analysis.apbf_false_positive_rate(int(row["k"]), int(row["l"]))
            cells.append(to_digits_of(row["actual_fp"], exact))
        rows.append(cells)
    header = list(table.key)
    for column in table.ours(table.rows()[0]):
        header += [f"{HEADINGS[column]}, paper", "ours"]
    return markdown(header + ["rate, exact profile"] * (table.number == 2), rows)


def list_differences() -> str:
    """Lay out the figures that differ, with reasons."""
    return markdown(
        ["table", "row", "column", "paper", "ours", "not rounded", "reason"],
        [
            [str(number), name, HEADINGS[column], printed, rounded, f"{value:.10g}", reason]
            for number, name, column, printed, rounded, value in differences()
            for reason in [REASONS[number, name, column]]
        ],
    )


def compared() -> int:
    """Count the figures that are compared."""
    return sum(len(table.ours(row)) for table in TABLES for row in table.rows())


TEXT = """\
# Tables of the APBF paper

Tables 1 to 3 of *Age-Partitioned Bloom Filters* (Shtul, Baquero and Almeida), each printed
figure with the one that `lately.golden.analysis` computes, rounded to as many digits. A figure
in bold differs from the printed one. Of {compared} figures {equal} are equal and {different}
differ; the differences are listed at the end.

This page is written by `python docs/make_tables.py`.

## Table 1: Bloom filter

The rate and the accesses are those of a partitioned Bloom filter that is half full. The paper
cuts off the digits of 'bits per item' and of the false-positive rate, and rounds the accesses.

{table1}
## Table 2: age-partitioned Bloom filter

- The rate is F(k, l, 0, 0) of section 5.3 with the fill ratios (i + 1) / (2k) in the slices
  that are filling, just before a shift.
- The efficiency is that of section 5.5. The number of slices of the Bloom filter it is compared
  with is log2 of 1 over the APBF's own rate; it is not rounded up to the k of Table 1.
- The accesses 'window' are the mean over the l generations in the window, each generation's k
  slices matching surely.
- The NPWS is the sum of 2^-i for i < k, over l.

The rates are optimistic. Fill ratios that grow linearly are an approximation: with generations
of floor(m ln 2 / k) keys, slice i < k is filled to 1 - 2^(-(i + 1) / k), which is more. For
k = 14, l = 11 the rate is {exact} instead of the printed {linear}, and a filter that is measured
shows the former. The last column gives this exact profile for every row; filters are sized by
it here. The accesses of a window query are the same in both profiles, because a query that is
reported surely never reads a slice younger than the key's own.

{table2}
## Table 3: age-partitioned blocked Bloom filter

The load of a block is Poisson-distributed; a block is full at ln(1/2) / ln(1 - b/B) expected
insertions, and segment i < k holds (i + 1) / k of that just before a shift. The false-positive
rate of the segment takes the place of the fill ratio of a slice. The rate of the APBF in the
same memory, with k b and l b slices, is in the linear profile of Table 2. Every printed digit is
reproduced.

{table3}
## Differences

{differences}
Where no reading is given, these were tried and either do not lead to the printed figure or spoil
others: cutting off digits, the exact profile, the mean over l + 1 generations or without the
youngest, and l one larger or smaller. The reading 'rounded twice' and that for the NPWS at k = 4
explain one figure each and are guesses.
"""


def page() -> str:
    """Return the page."""
    different = len(list(differences()))
    return TEXT.format(
        compared=compared(),
        equal=compared() - different,
        different=different,
        exact=to_digits_of("0.000099", analysis.apbf_false_positive_rate(14, 11)),
        linear=to_digits_of(
            "0.000099", analysis.apbf_false_positive_rate(14, 11, profile="linear")
        ),
        table1=beside(TABLES[0]),
        table2=beside(TABLES[1]),
        table3=beside(TABLES[2]),
        differences=list_differences(),
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
