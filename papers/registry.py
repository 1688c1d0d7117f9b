"""All studies, by name."""

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from lately.golden.errors import LatelyError

from . import (
    apbf_accesses,
    apbf_accuracy,
    apbf_duplicates,
    apbf_figures,
    apbf_segments,
    apbf_tables,
    cuckoo_bounds,
    cuckoo_real,
    cuckoo_synthetic,
    cuckoo_work,
    gebf,
    inferential,
    time_limited_rates,
    time_limited_slices,
)
from .studies.study import Study

STUDIES: tuple[Study, ...] = (
    *apbf_tables.STUDIES,
    *apbf_figures.STUDIES,
    *apbf_accuracy.STUDIES,
    *apbf_duplicates.STUDIES,
    *apbf_accesses.STUDIES,
    *apbf_segments.STUDIES,
    *gebf.STUDIES,
    *time_limited_slices.STUDIES,
    *time_limited_rates.STUDIES,
    *inferential.STUDIES,
    *cuckoo_synthetic.STUDIES,
    *cuckoo_real.STUDIES,
    *cuckoo_bounds.STUDIES,
    *cuckoo_work.STUDIES,
)
"""In the order of the page."""

ALL = "all"
"""Name that stands for all studies."""


class UnknownStudyError(LatelyError, ValueError):
    """A name is that of no study."""


def select(names: Iterable[str], studies: tuple[Study, ...] = STUDIES) -> list[Study]:
    """Return the studies that are named, each once and in their own order.

    A name is that of a study, the same with ``*`` and ``?`` in it, or `ALL`.

    Raises
    ------
    UnknownStudyError
        If a name is that of none; the message names those that are near it.
    """
    chosen: set[str] = set()
    for name in names:
        found = {s.name for s in studies if name == ALL or fnmatchcase(s.name, name)}
        if not found:
            near = get_close_matches(name, [study.name for study in studies], n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise UnknownStudyError(
                f"study: must be {ALL!r} or one that --list names, not {name!r}{hint}"
            )
        chosen |= found
    return [study for study in studies if study.name in chosen]
