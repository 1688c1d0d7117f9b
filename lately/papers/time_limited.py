"""Studies of the time-limited Bloom filter (Rodrigues, Shtul, Baquero and Almeida)."""

from ..studies.study import Study
from . import time_limited_rates, time_limited_slices, time_limited_table

STUDIES: tuple[Study, ...] = (
    time_limited_table.STUDY,
    time_limited_slices.STUDY,
    time_limited_rates.STUDY,
)
"""Its table, then its figures."""
