"""All studies, in the order of the page."""

from . import apbf, apbf_rates, apbf_segments, cuckoo, gebf, inferential, time_limited

STUDIES = (
    *apbf.STUDIES, *apbf_rates.STUDIES, *apbf_segments.STUDIES, *gebf.STUDIES,
    *time_limited.STUDIES, *inferential.STUDIES, *cuckoo.STUDIES,
)  # fmt: skip
