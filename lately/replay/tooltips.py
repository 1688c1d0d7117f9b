"""Values that the drawings of a page show at the mouse pointer."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS_PER_INCH = 72


class Mark(NamedTuple):
    """A point of a plot, in the units of its axes, and its text."""

    axes: "Axes"
    x: float
    y: float
    text: str


def with_marks(svg: str, figure: "Figure", marks: Sequence[Mark]) -> str:
    """Return a drawing with an invisible circle at each mark, whose title is the mark's text.

    A browser shows the title under the pointer; the script of the page shows the nearest title.

    Parameters
    ----------
    svg : str
        As `figure` was saved.
    figure : Figure
    marks : sequence of Mark
    """
    scale = _POINTS_PER_INCH / figure.dpi
    height = figure.get_figheight() * _POINTS_PER_INCH
    circles = []
    for axes, x, y, text in marks:
        right, up = axes.transData.transform((x, y))
        # A logarithmic axis has no place for 0.
        right, up = right * scale, min(max(up, axes.bbox.y0), axes.bbox.y1) * scale
        circles.append(
            f'<circle cx="{right:.1f}" cy="{height - up:.1f}" r="6">'
            f"<title>{escape(text)}</title></circle>"
        )
    group = "\n".join(['<g class="marks">', *circles, "</g>", ""])
    end = svg.rindex("</svg>")
    return svg[:end] + group + svg[end:]
