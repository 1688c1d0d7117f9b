"""What studies found, as it is kept in a file."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ..golden.errors import LatelyError
from .study import Chart, Finding, Outcome, Series, Verdict

FORMAT = 1
"""Of the files."""


class ReportFileError(LatelyError, ValueError):
    """A file holds no report of `lately reproduce`, or is damaged."""


@dataclass(frozen=True)
class Entry:
    """A study and what it found."""

    name: str
    title: str
    source: str
    outcome: Outcome

    @property
    def counts(self) -> Counter[Verdict]:
        """Findings of each verdict."""
        return Counter(finding.verdict for finding in self.outcome.findings)


@dataclass(frozen=True)
class Report:
    """What studies found.

    Attributes
    ----------
    quick : bool
        Whether it is of the quick form.
    entries : list of Entry
    """

    quick: bool
    entries: Sequence[Entry]

    @property
    def counts(self) -> Counter[Verdict]:
        """Findings of each verdict."""
        return sum((entry.counts for entry in self.entries), Counter())

    @property
    def charts(self) -> list[Chart]:
        """Charts of all studies."""
        return [chart for entry in self.entries for chart in entry.outcome.charts]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "format": FORMAT,
            "quick": self.quick,
            "counts": {verdict.value: self.counts[verdict] for verdict in Verdict},
            "studies": [_entry_to_dict(entry) for entry in self.entries],
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the report that `to_dict` told of.

        Raises
        ------
        ValueError
            If it did not.
        """
        try:
            if values["format"] != FORMAT:
                raise ValueError(f"format must be {FORMAT}, not {values['format']!r}")
            return cls(bool(values["quick"]), [_entry(study) for study in values["studies"]])
        except KeyError as error:
            raise ValueError(f"it lacks {error}") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is malformed: {error}") from None


def load(path: str | os.PathLike[str]) -> Report:
    """Read the report of a file.

    Raises
    ------
    ReportFileError
        If it holds none.
    OSError
        If it cannot be read.
    """
    try:
        return Report.from_dict(json.loads(Path(path).read_bytes()))
    except (ValueError, RecursionError) as error:
        raise ReportFileError(
            f"{os.fspath(path)}: must hold a report of lately reproduce, but: {error}"
        ) from None


def text(report: Report) -> str:
    """Return the content of the file of a report."""
    return json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n"


def _entry_to_dict(entry: Entry) -> dict[str, Any]:
    names = {"name": entry.name, "title": entry.title, "source": entry.source}
    counts = {verdict.value: entry.counts[verdict] for verdict in Verdict}
    values = asdict(entry.outcome)
    for series in (series for chart in values["charts"] for series in chart["series"]):
        series |= {name: _floats(series[name]) for name in ("x", "y", "low", "high")}
    return names | {"counts": counts} | values


def _floats(values: Sequence[float] | None) -> list[float] | None:
    # More cannot be seen in a drawing.
    return None if values is None else [float(f"{value:.6g}") for value in values]


def _entry(values: dict[str, Any]) -> Entry:
    findings = [
        Finding(**{**finding, "verdict": Verdict(finding["verdict"])})
        for finding in values["findings"]
    ]
    charts = [
        Chart(**{**chart, "series": [Series(**series) for series in chart["series"]]})
        for chart in values["charts"]
    ]
    outcome = Outcome(findings, charts, list(values["notes"]))
    return Entry(values["name"], values["title"], values["source"], outcome)
