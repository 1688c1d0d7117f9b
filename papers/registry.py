"""All studies, in the order in which the page shows them."""

from . import apbf, apbf_tables, cuckoo, gebf, inferential, time_limited

STUDIES = (
    *apbf_tables.STUDIES, *apbf.STUDIES, *gebf.STUDIES,
    *time_limited.STUDIES, *inferential.STUDIES, *cuckoo.STUDIES,
)  # fmt: skip
