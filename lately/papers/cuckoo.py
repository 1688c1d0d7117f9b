"""Studies of the time-decaying cuckoo dictionary."""

from ..studies.study import Study
from . import cuckoo_bounds, cuckoo_real, cuckoo_synthetic

STUDIES: tuple[Study, ...] = (
    cuckoo_synthetic.ZIPF,
    cuckoo_synthetic.WINDOWS,
    cuckoo_synthetic.SIGNATURES,
    cuckoo_real.STREAMS,
    cuckoo_real.AGES,
    cuckoo_bounds.LIST,
    cuckoo_bounds.SPACE,
)
"""In the order of the paper's figures, then of its theorems."""
