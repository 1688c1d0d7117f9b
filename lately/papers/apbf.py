"""Studies of the APBF paper (Shtul, Baquero and Almeida)."""

from ..studies.study import Study
from . import apbf_accuracy, apbf_duplicates, apbf_figures, apbf_tables

STUDIES: tuple[Study, ...] = (
    *apbf_tables.STUDIES,
    *apbf_figures.STUDIES,
    *apbf_accuracy.STUDIES,
    *apbf_duplicates.STUDIES,
)
"""Its tables, then its figures."""
