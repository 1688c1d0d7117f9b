"""Self-contained pages from templates."""

from pathlib import Path
from typing import Any

from .formatting import count_text, held, interval_text, rate_text, seconds_text

_FOLDERS = [Path(__file__).parent, Path(__file__).parents[1] / "dedup"]


def render(template: str, **values: Any) -> str:
    """Return the page that a template makes of `values`."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDERS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"count": count_text, "rate": rate_text, "interval": interval_text}
    environment.filters |= {"time": seconds_text, "held": held}
    return environment.get_template(template).render(values)
