"""All studies, in the order of the page."""

from . import apbf, apbf_tables, cuckoo, gebf, inferential, time_limited

STUDIES = (
    *apbf_tables.STUDIES, *apbf.STUDIES, *gebf.STUDIES,
    *time_limited.STUDIES, *inferential.STUDIES, *cuckoo.STUDIES,
)  # fmt: skip
