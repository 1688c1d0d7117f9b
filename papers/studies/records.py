"""Findings of studies, as files hold them."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from lately.golden.errors import LatelyError
from lately.replay.drawing import Chart, Series

from .criteria import Verdict
from .study import Conclusion, Finding
from .thinning import thinned

_FIGURES = {True: 10, False: 6}
"""Figures of a value in the file, by whether it is computed; the page shows as many at most."""

_FINDING = {"paper": "", "low": None, "high": None, "note": "", "within": None}
_DEFAULTS = _FINDING.keys() | {"marks", "x_log", "y_log", "missing", "quick"}
"""Members that are left out of the file where they say nothing."""


COMPARED = (Verdict.MET, Verdict.NEAR, Verdict.UNDECIDED, Verdict.NOT_MET)
"""Verdicts on claims of a paper."""


class ReportFileError(LatelyError, ValueError):
    """A file holds no report of `python -m papers`, or is damaged."""


@dataclass(frozen=True)
class StudyEntry:
    """A study and its findings."""

    name: str
    title: str
    source: str
    outcome: Conclusion

    @property
    def counts(self) -> Counter[Verdict]:
        """Findings of each verdict."""
        return Counter(finding.verdict for finding in self.outcome.findings)


@dataclass(frozen=True)
class Report:
    """Findings of studies, maybe of their `quick` form."""

    quick: bool
    entries: Sequence[StudyEntry]

    @property
    def counts(self) -> Counter[Verdict]:
        """Findings of each verdict."""
        return sum((entry.counts for entry in self.entries), Counter())

    @property
    def figures(self) -> int:
        """Number of printed figures that are compared."""
        return sum(self.counts[verdict] for verdict in COMPARED) - self.sentences

    @property
    def sentences(self) -> int:
        """Number of sentences that are judged by thresholds."""
        return sum(finding.within is not None for finding in self._findings)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Names of studies, each with a point that could not be measured."""
        return [(entry.name, text) for entry in self.entries for text in entry.outcome.missing]

    @property
    def _findings(self) -> list[Finding]:
        return [finding for entry in self.entries for finding in entry.outcome.findings]

    @property
    def charts(self) -> list[Chart]:
        """Charts of all studies."""
        return [chart for entry in self.entries for chart in entry.outcome.charts]

    def updated(self, other: "Report", names: Sequence[str]) -> "Report":
        """Return the report with the studies of another in the place of those it had.

        The studies are those of the given `names` that either report has, in that order.

        Raises
        ------
        ValueError
            If one report is of the quick form and the other is not.
        """
        if other.quick != self.quick:
            forms = {True: "quick", False: "full"}
            raise ValueError(
                f"report: must be of the {forms[self.quick]} form, not of the {forms[other.quick]}"
            )
        entries = {entry.name: entry for entry in (*self.entries, *other.entries)}
        return Report(self.quick, [entries[name] for name in names if name in entries])

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "quick": self.quick,
            "counts": {verdict.value: self.counts[verdict] for verdict in Verdict},
            "studies": [_entry_to_dict(entry) for entry in self.entries],
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the report from the result of `to_dict`.

        Raises
        ------
        ValueError
            If it did not.
        """
        try:
            return cls(bool(values["quick"]), [_entry(study) for study in values["studies"]])
        except KeyError as error:
            raise ValueError(f"it lacks {error}") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"it is malformed: {error}") from None


def load(path: str | os.PathLike[str]) -> Report:
    """Read the report of a file: one study on each line.

    Raises
    ------
    ReportFileError
        If the file does not hold a report.
    OSError
        If the file cannot be read.
    """
    try:
        studies = [json.loads(line) for line in Path(path).read_bytes().splitlines()]
        quick = {bool(study.get("quick")) for study in studies}
        if len(quick) > 1:
            raise ValueError("it has studies of the quick form and of the full form")
        return Report.from_dict({"quick": any(quick), "studies": studies})
    except (ValueError, AttributeError, RecursionError) as error:
        raise ReportFileError(
            f"{os.fspath(path)}: must hold a report of python -m papers, but: {error}"
        ) from None


def text(report: Report) -> str:
    """Return the content of the file of a report."""
    studies = [study | {"quick": report.quick} for study in report.to_dict()["studies"]]
    for study in studies:
        del study["counts"]
    return "".join(f"{_compact(study)}\n" for study in studies)


def _compact(values: Any) -> str:
    """Write JSON without spaces, and without members that `_entry` knows the values of."""
    lean = _without_defaults(values)
    return json.dumps(lean, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _without_defaults(values: Any) -> Any:
    if isinstance(values, dict):
        kept = {name: _without_defaults(value) for name, value in values.items()}
        return {name: value for name, value in kept.items() if not _is_default(name, value)}
    return [_without_defaults(value) for value in values] if isinstance(values, list) else values


def _entry_to_dict(entry: StudyEntry) -> dict[str, Any]:
    names = {"name": entry.name, "title": entry.title, "source": entry.source}
    counts = {verdict.value: count for verdict, count in entry.counts.items()}
    findings = [*map(_rounded, entry.outcome.findings)]
    charts = [*map(thinned, entry.outcome.charts)]
    values = asdict(replace(entry.outcome, findings=findings, charts=charts))
    return names | {"counts": counts} | values


def _rounded(finding: Finding) -> Finding:
    """Return a finding whose values have no more figures than their error leaves meaningful."""
    figures = _FIGURES[finding.low is None]
    ends = (finding.low, finding.high)
    low, high = (None if end is None else float(f"{end:.{figures}g}") for end in ends)
    return replace(finding, ours=float(f"{finding.ours:.{figures}g}"), low=low, high=high)


def _is_default(name: str, value: Any) -> bool:
    return name in _DEFAULTS and (value is None or value is False or value in ("", []))


def _read(finding: dict[str, Any]) -> dict[str, Any]:
    within = finding.get("within")
    verdict = Verdict(finding["verdict"])
    return {"verdict": verdict, "within": None if within is None else tuple(within)}


def _entry(values: dict[str, Any]) -> StudyEntry:
    findings = [
        Finding(**{**_FINDING, **finding, **_read(finding)}) for finding in values["findings"]
    ]
    charts = [
        Chart(**{**chart, "series": [Series(**series) for series in chart["series"]]})
        for chart in values["charts"]
    ]
    outcome = Conclusion(findings, charts, list(values["notes"]), list(values.get("missing", ())))
    return StudyEntry(values["name"], values["title"], values["source"], outcome)
